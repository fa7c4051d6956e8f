"""If a tokenizer would write whole paths otherwise, the user learns how many and where."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from kgqa.errors import ModelError
from kgqa.graph.model import DIRECTIONS
from kgqa.models.tokenizer import HFEncoder
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from kgqa.trie.check import (
    EXAMPLES,
    NAMES,
    JoinCheck,
    adversarial_paths,
    check_joining,
    sample_paths,
    whole_tokens,
)
from kgqa.trie.index import index_folder, open_index
from kgqa.trie.index.manifest import read_manifest
from kgqa.trie.lexicon import PathLexicon
from tests.graph.tables import entity, tables_of
from tests.trie import precomputed
from tests.trie.language import (
    CharacterEncoder,
    PairEncoder,
    brute_force,
    graphs,
    store_of,
    text_of,
)
from tests.trie.precomputed import FORM, RULES
from tests.trie.real_tokenizers import real_encoder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.graph.model import GraphTables
    from kgqa.trie.check import PathNames

TIGHT = PathFormat(separator="->")
# what "Hello world" is in each vocabulary, as its publisher's own tokenizer writes it
HELLO = {
    "gpt2": [15496, 995],
    "llama2": [10994, 3186],
    "llama3": [9906, 1917],
    "qwen1": [9707, 1879],
}
KEY = replace(precomputed.KEY, tokenizer="pairs")


@pytest.fixture(scope="module")
def smollm(smollm_folder: Path) -> HFEncoder:
    return HFEncoder(AutoTokenizer.from_pretrained(smollm_folder))


@pytest.mark.parametrize("name", HELLO)
def test_real_vocabularies_write_whole_paths_as_their_parts(name: str) -> None:
    encoder = real_encoder(name)
    assert encoder.encode(["Hello world"]) == [HELLO[name]]
    check = check_joining(PathLexicon(encoder, FORM), [])
    assert (check.adversarial, check.adversarial_differing) == (len(NAMES), 0)
    assert check.note() is None


@pytest.mark.parametrize("name", ["gpt2", "llama2"])
def test_a_format_without_spaces_differs_with_real_vocabularies(name: str) -> None:
    check = check_joining(PathLexicon(real_encoder(name), TIGHT), [])
    assert 0 < check.adversarial_differing < check.adversarial


@pytest.mark.model
def test_the_offline_model_writes_whole_paths_as_their_parts(smollm: HFEncoder) -> None:
    path = ("Bob Marley", (("people.person.place_of_birth", "Nine Mile"),))
    check = check_joining(PathLexicon(smollm, FORM), [path])
    assert check == JoinCheck(1, 0, len(NAMES), 0)


@pytest.mark.model
def test_a_difference_is_shown_where_it_is(smollm: HFEncoder) -> None:
    ends_in_a_stop: PathNames = ("U.S.", (("r", "x"),))
    lexicon = PathLexicon(smollm, TIGHT)
    check = check_joining(lexicon, [ends_in_a_stop, ("x", (("r", "y"),))])
    assert (check.sampled, check.differing) == (2, 1)
    example = check.examples[0]
    assert example.text == "U.S.->r->x"
    assert "".join(example.joined) == "".join(example.whole)
    assert ".-" in example.whole
    note = check.note()
    assert note is not None
    assert "1 of 2 paths" in note
    assert "U.S.->r->x" in note
    assert whole_tokens(lexicon, ends_in_a_stop) != lexicon.sequence(*ends_in_a_stop)


names = st.text(st.characters(max_codepoint=0xFFF, min_codepoint=1), min_size=1, max_size=4)


@settings(max_examples=60)
@given(st.lists(st.tuples(names, st.lists(st.tuples(names, names), min_size=1, max_size=3))))
def test_what_differs_is_counted(drawn: list) -> None:
    """Pairs of characters fall otherwise exactly where a part before the last has an odd length."""
    sample = [(head, tuple(hops)) for head, hops in drawn]
    check = check_joining(PathLexicon(PairEncoder(), FORM), sample)
    odd = 0
    for head, hops in sample:
        parts = [f" {head}"]
        for relation, tail in hops:
            parts += [" ->", f" {relation}", " ->", f" {tail}"]
        odd += any(len(part) % 2 for part in parts[:-1])
    assert (check.sampled, check.differing) == (len(sample), odd)
    assert len(check.examples) <= EXAMPLES


def test_a_difficult_name_that_cannot_be_written_counts_and_stops_nothing() -> None:
    class NoEmoji(CharacterEncoder):
        def encode(self, texts: Sequence[str]) -> list[list[int]]:
            if any("😀" in text for text in texts):
                raise ModelError("It cannot write an emoji.")
            return super().encode(texts)

    lexicon = PathLexicon(NoEmoji(), FORM)
    check = check_joining(lexicon, [])
    made = [(head, *(tail for _, tail in hops)) for head, hops in adversarial_paths(0)]
    assert check.adversarial_differing == sum("😀" in path for path in made) > 0
    with pytest.raises(ModelError, match="emoji"):  # a real name is the KG's own
        check_joining(lexicon, [("😀", (("r", "x"),))])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tables=graphs(),
    hops=st.integers(1, 3),
    direction=st.sampled_from(DIRECTIONS),
    mediators=st.sampled_from(["collapse", "keep"]),
    seed=st.integers(0, 3),
)
def test_a_sample_holds_paths_of_the_language(
    tmp_path: Path, tables: GraphTables, hops: int, direction, mediators, seed: int
) -> None:
    rules = WalkRules(hops, direction, mediators)
    with store_of(tables, tmp_path) as store:
        sample = sample_paths(store, rules, FORM, count=20, seed=seed)
        assert sample == sample_paths(store, rules, FORM, count=20, seed=seed)
        topics = store.topic_keys().tolist()
    paths = {key: brute_force(tables, key, rules) for key in topics}
    real = {text_of(tables, path, FORM) for found in paths.values() for path in found}
    assert {FORM.path(*path) for path in sample} <= real
    assert len(sample) <= sum(bool(found) for found in paths.values())


def chain(count: int) -> GraphTables:
    nodes = [entity(f"e{at:03}", f"name {at:03}") for at in range(count)]
    edges = [(f"e{at:03}", "r", f"e{(at + 1) % count:03}") for at in range(count)]
    return tables_of(nodes, edges)


def test_a_sample_is_of_many_entities_and_of_every_length(tmp_path: Path) -> None:
    with store_of(chain(300), tmp_path) as store:
        one, other = (sample_paths(store, RULES, FORM, count=100, seed=seed) for seed in (1, 2))
    assert len({head for head, _ in one}) == len(one) > 70
    assert {len(hops) for _, hops in one} == {1, 2}
    assert one != other


def test_a_kg_without_paths_has_an_empty_sample(tmp_path: Path) -> None:
    with store_of(tables_of([entity("a", "A")], []), tmp_path) as store:
        assert sample_paths(store, RULES, FORM) == []


def build(folder: Path, progress: Silent) -> None:
    pairs = PairEncoder()
    precomputed.build(
        folder / "graph.sqlite", folder, key=KEY, cap=100, encoder=pairs, progress=progress
    )


def test_an_index_records_the_check_and_tells_it_once(tmp_path: Path) -> None:
    store_of(chain(40), tmp_path).close()
    first, second = Silent(), Silent()
    build(tmp_path, first)
    with open_index(tmp_path, KEY) as index:
        check = index.manifest.joining
    assert check is not None
    assert 0 < check.sampled <= 40
    assert check.differing == check.sampled  # " ->" has three characters
    assert check.examples
    assert first.notes == [check.note()]
    build(tmp_path, second)
    assert second.notes == []
    with open_index(tmp_path, KEY) as index:
        assert index.manifest.joining == check


def test_an_index_without_the_check_opens_and_gets_it_with_the_next_run(tmp_path: Path) -> None:
    store_of(chain(10), tmp_path).close()
    build(tmp_path, Silent())
    folder = index_folder(tmp_path, KEY)
    written = read_manifest(folder)
    assert written is not None
    assert written.joining is not None
    replace(written, joining=None).write(folder)  # as a run leaves it that is stopped before
    with open_index(tmp_path, KEY) as index:
        assert index.manifest.joining is None
        assert index.look_up("e003", 3) is not None
    build(tmp_path, Silent())
    assert read_manifest(folder) == written
