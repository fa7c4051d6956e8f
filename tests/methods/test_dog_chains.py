"""Whatever the model, every triplet of a chain is in the graph and touches what came before it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kgqa.decoding.engine import DecodingPlan
from kgqa.errors import TimeLimitError
from kgqa.graph.model import Kind, keys_array
from kgqa.methods.dog.chains import (
    MOST_READINGS,
    ChainReading,
    ChainWriter,
    chain_path,
    extended,
    first_reading,
    score,
    without_end,
)
from kgqa.methods.grounding import end_tokens
from kgqa.methods.options import DogOptions
from kgqa.paths.format import PathFormat
from kgqa.paths.triplets import SomeTriplets, StoreTriplets, joined_rows
from kgqa.trie.composed import TripletLanguage
from kgqa.trie.lexicon import PathLexicon
from kgqa.trie.precompute import all_topics
from tests.fixtures import LINCOLN, TOLKIEN
from tests.graph.tables import entity, random_tables, tables_of
from tests.methods.dog_models import opening_model
from tests.trie.language import store_of

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.answers.answer import ScoredPath
    from kgqa.graph.store import GraphStore
    from kgqa.models.kg_llm import KgLLM

pytestmark = pytest.mark.model
FORM = PathFormat()


@pytest.fixture(scope="module")
def models(kg_llm: KgLLM) -> list[KgLLM]:
    return [opening_model(kg_llm, seed) for seed in range(3)]


def write(
    store: GraphStore,
    llm: KgLLM,
    topics: list[int],
    *,
    inside: np.ndarray | None = None,
    prompt: list[int] | None = None,
    way: Any = "tree",
    **options: Any,
) -> tuple[list[Any], list[ScoredPath | None]]:
    """Chains round ``topics`` and the path of each; ``inside``: the graph to walk in."""
    lexicon = PathLexicon(llm.encoder, FORM)
    source = StoreTriplets(store) if inside is None else SomeTriplets(store, inside)
    start = first_reading(store, topics)
    prompt = prompt or [100 + topics[0] % 1000, 200, 300]
    writer = ChainWriter(
        llm,
        DecodingPlan(way, budget=32),
        store,
        TripletLanguage(store, source, lexicon),
        start,
        prompt,
        DogOptions(**{"beams": 2, "steps": 4, "chain_tokens": 120, **options}),
    )
    chains = writer.write()
    closing = writer.markers.closing
    paths = [
        chain_path(store, lexicon, chain, writer.readings(chain), start, closing)
        for chain in chains
    ]
    return chains, paths


def check_chain(store: GraphStore, path: ScoredPath, topics: list[int], triplets: int) -> None:
    """Fail where a triplet is not stored, or touches nothing that was visited, in any reading."""
    topic_ids = set(store.entities(keys_array(topics)).ids)
    relations = {one: number for number, one in enumerate(store.relations().ids)}
    assert path.groundings
    for grounding in path.groundings:
        assert len(grounding.edges) == triplets
        assert grounding.text == path.text
        visited = set(topic_ids)
        for edge in grounding.edges:
            assert edge.head.id in visited
            assert edge.head.id != edge.tail.id
            ends = store.keys_of([edge.head.id, edge.tail.id])
            kinds = store.entities(ends).kinds.tolist()
            assert kinds[0] != Kind.VALUE or edge.head.id in topic_ids
            visited |= {
                one
                for one, kind in zip((edge.head.id, edge.tail.id), kinds, strict=True)
                if kind != Kind.VALUE
            }
            facts = [(fact.head, fact.predicate, fact.tail) for fact in edge.facts]
            assert 1 <= len(facts) <= 2
            heads, tails = (store.keys_of([fact[at] for fact in facts]) for at in (0, 2))
            predicates = keys_array([relations[fact[1]] for fact in facts])
            assert store.has_edges(heads, predicates, tails).all()
            touched = [{fact[0], fact[2]} for fact in facts]
            assert edge.head.id in touched[0]
            assert edge.tail.id in touched[-1]
            assert len(facts) == 1 or touched[0] & touched[1]


def walked(sample: GraphStore, models: list[KgLLM], folder: Path, chains: int) -> dict[str, int]:
    """Write ``chains`` chains on the sample and on random graphs; return what was seen."""
    seen = {"chains": 0, "triplets": 0, "against": 0, "readings": 0, "long": 0}
    dice = random.Random(11)
    keys = all_topics(sample).tolist()
    seed = 0
    while seen["chains"] < chains:
        seed += 1
        if seed % 2:
            check_all(sample, models[seed % 3], dice.sample(keys, 1 + seed % 2), seed, seen)
            continue
        tables = random_tables(seed)
        (folder / str(seed)).mkdir()
        with store_of(tables, folder / str(seed)) as store:
            kinds = tables.nodes["kind"].to_pylist()
            nodes = [key for key, kind in enumerate(kinds) if kind == Kind.ENTITY]
            if nodes:
                check_all(store, models[seed % 3], dice.sample(nodes, 1), seed, seen)
    return seen


def check_all(
    store: GraphStore, llm: KgLLM, topics: list[int], seed: int, seen: dict[str, int]
) -> None:
    around = joined_rows(StoreTriplets(store).around(keys_array(sorted(topics))))
    if not len(around):
        return
    inside = around if seed % 3 == 0 else None  # a graph of its own now and then
    chains, paths = write(store, llm, topics, inside=inside, beams=1 + seed % 3)
    assert [score(chain) for chain in chains] == sorted(
        (score(chain) for chain in chains), reverse=True
    )
    for chain, path in zip(chains, paths, strict=True):
        assert len(chain.spans) <= 4
        if not chain.spans:
            continue
        assert path is not None, "a chain that was written is in the graph"
        check_chain(store, path, topics, len(chain.spans))
        written = [span.text.strip().strip("<> ") for span in chain.spans]
        assert [one.strip() for one in written] == [
            text.strip().strip("<> ") for text in split(path)
        ]
        seen["chains"] += 1
        seen["triplets"] += len(chain.spans)
        seen["long"] += len(chain.spans) > 1
        seen["readings"] += len(path.groundings) > 1
        seen["against"] += any(edge.inverse for edge in path.groundings[0].edges)


def split(path: ScoredPath) -> list[str]:
    """The triplets of a path's text, by its edges: names may hold the bar themselves."""
    texts = []
    for edge in path.groundings[0].edges:
        head, tail = (edge.tail, edge.head) if against(edge) else (edge.head, edge.tail)
        relation = edge.relation
        if against(edge):
            halves = [one.removeprefix("^") for one in relation.split("..")]
            relation = "..".join(reversed(halves))
        texts.append(f"{head.name} -> {relation} -> {tail.name}")
    return texts


def against(edge: Any) -> bool:
    return bool(edge.inverse)


def test_chains_under_random_weights_are_well_formed(sample, models, tmp_path) -> None:
    seen = walked(sample, models, tmp_path, 40)
    assert seen["triplets"] > 80
    assert min(seen.values()) > 0, seen  # or some kind of chain was not seen at all


@pytest.mark.long
def test_two_thousand_chains_under_random_weights_are_well_formed(sample, models, tmp_path) -> None:
    assert walked(sample, models, tmp_path, 2_000)["triplets"] > 3_000


def test_the_same_question_gives_the_same_chains_by_trees_or_without(sample, models) -> None:
    topics = sample.keys_of([TOLKIEN]).tolist()
    found = [write(sample, models[0], topics, way=way)[0] for way in ("tree", "tree", "plain")]
    texts = [
        ["".join(piece.text for piece in chain.pieces) for chain in chains] for chains in found
    ]
    assert texts[0] == texts[1] == texts[2]
    for one, other in zip(found[0], found[2], strict=True):
        assert score(one) == pytest.approx(score(other), abs=1e-3)


def test_a_chain_beam_keeps_the_best_sums(sample, models) -> None:
    """With one step, the beam's chains are the best triplets of the token beam, in their order."""
    topics = sample.keys_of([TOLKIEN]).tolist()
    wide, _ = write(sample, models[1], topics, beams=3, steps=1)
    one, _ = write(sample, models[1], topics, beams=1, steps=1)
    assert len(wide) == 3
    assert len({chain.spans[0].hypothesis.tokens for chain in wide}) == 3
    assert score(wide[0]) >= score(one[0]) - 1e-6
    for chain in wide:
        assert len(chain.spans) == 1
        assert score(chain) == chain.spans[0].hypothesis.log_probability <= 0


def test_a_model_that_opens_nothing_is_given_one_triplet(sample, random_llm) -> None:
    from kgqa.models.adapter import preset

    shy = opening_model(random_llm, 0, liking=-100.0).with_card(preset("dog"))
    topics = sample.keys_of([TOLKIEN]).tolist()
    chains, paths = write(sample, shy, topics, chain_tokens=80)
    assert [len(chain.spans) for chain in chains] == [1] * len(chains)
    for path in paths:
        assert path is not None
        check_chain(sample, path, topics, 1)


def test_a_chain_ends_with_its_answer_and_the_prompt_is_run_once(sample, kg_llm) -> None:
    """A model that says one line over and over stops after the first, and is asked again."""
    from kgqa.models.adapter import preset

    llm = kg_llm.with_card(preset("dog"))
    said = "Therefore, the answer is * J. R. R. Tolkien.\n"
    example = f"< J. R. R. Tolkien -> people.person.gender -> Male > {said}"
    prompt = llm.encoder.encode([example * 4 + said * 4])[0]
    special = sorted(end_tokens(llm))
    run: list[int] = []

    def never_ends(_: Any, __: Any, logits: Any) -> None:
        logits[..., special] -= 100.0

    def counted(_: Any, args: Any, named: Any) -> None:
        run.append((args[0] if args else named["input_ids"]).numel())

    hooks = [
        llm.model.get_output_embeddings().register_forward_hook(never_ends),
        llm.model.register_forward_pre_hook(counted, with_kwargs=True),
    ]
    topics = sample.keys_of([TOLKIEN]).tolist()
    try:
        chains, paths = write(
            sample, llm, topics, prompt=prompt, beams=1, steps=1, chain_tokens=200
        )
    finally:
        for hook in hooks:
            hook.remove()
    (chain,) = chains
    assert paths[0] is not None
    check_chain(sample, paths[0], topics, 1)  # opened for it, for it had ended without one
    assert chain.stop == "ending"
    assert chain.pieces[-1].text.strip() == said.strip()
    assert sum(one >= len(prompt) for one in run) == 1


def test_a_thought_without_a_triplet_ends_with_a_note(sample, random_llm) -> None:
    shy = opening_model(random_llm, 0, liking=-100.0, ending=-100.0)
    topics = sample.keys_of([TOLKIEN]).tolist()
    chains, paths = write(sample, shy, topics, beams=1, chain_tokens=100, thought_tokens=16)
    assert paths[0] is not None
    assert len(chains[0].spans) == 1
    assert chains[0].stop == "ending"
    assert len(chains[0].pieces[-1].tokens) == 17
    assert "16 tokens without a triplet" in chains[0].notes[-1]


def test_a_time_limit_ends_a_question(sample, models) -> None:
    with pytest.raises(TimeLimitError, match="time_limit"):
        write(sample, models[0], sample.keys_of([TOLKIEN]).tolist(), time_limit=1e-9)


def test_the_end_token_is_not_text(sample, models) -> None:
    chains, _ = write(sample, models[0], sample.keys_of([LINCOLN]).tolist())
    decode = models[0].encoder.decode
    for chain in chains:
        text = "".join(piece.text for piece in without_end(chain, decode))
        assert not text.endswith(decode([models[0].encoder.eos_id]))


# ── readings ────────────────────────────────────────────────────────────────────────────────


def test_readings_are_consistent_by_themselves(tmp_path: Path) -> None:
    """Of two entities of one name only that one goes on which the next triplet touches."""
    tables = tables_of(
        [entity("a", "Ada"), entity("b", "Bo"), entity("c", "Bo"), entity("d", "Di")],
        [("a", "r", "b"), ("a", "r", "c"), ("c", "s", "d")],
    )
    with store_of(tables, tmp_path) as store:
        a, b, c, d = store.keys_of(["a", "b", "c", "d"]).tolist()
        r, s = 0, 2
        first = first_reading(store, [a])
        both = extended(store, [first], np.array([[a, r, -1, -1, b], [a, r, -1, -1, c]]))
        assert [one.visited for one in both] == [frozenset({a, b}), frozenset({a, c})]
        (last,) = extended(store, both, np.array([[c, s, -1, -1, d]]))
        assert last.triplets == ((a, r, -1, -1, c), (c, s, -1, -1, d))
        assert last.visited == {a, c, d}
        assert extended(store, [first], np.array([[c, s, -1, -1, d]])) == []
        assert len(extended(store, both, np.array([[a, r, -1, -1, b]] * 9), most=5)) == 5


def test_a_note_says_that_there_are_more_readings(tmp_path: Path, models) -> None:
    """A name that is shared by 300 entities; with 256 of them every reading stands."""
    for count, cut in ((MOST_READINGS, False), (MOST_READINGS + 1, True)):
        tables = tables_of(
            [entity("a", "Ada"), *(entity(f"b{one}", "Bo") for one in range(count))],
            [("a", "r", f"b{one}") for one in range(count)],
        )
        (tmp_path / str(count)).mkdir()
        with store_of(tables, tmp_path / str(count)) as store:
            lexicon = PathLexicon(models[0].encoder, FORM)
            start = first_reading(store, store.keys_of(["a"]).tolist())
            writer = ChainWriter(
                models[0],
                DecodingPlan(budget=32),
                store,
                TripletLanguage(store, StoreTriplets(store), lexicon),
                start,
                [100, 200, 300],
                DogOptions(beams=1, steps=1, chain_tokens=120),
            )
            (chain,) = writer.write()
            assert chain.spans
            assert writer.has_more_readings(chain) == cut
            assert len(writer.readings(chain)) == MOST_READINGS


def test_a_value_is_reached_and_not_gone_on_from(tmp_path: Path) -> None:
    tables = tables_of(
        [entity("a", "Ada"), entity("b", "Bo"), entity("1950", "1950", kind=Kind.VALUE)],
        [("a", "born", "1950"), ("b", "born", "1950")],
    )
    with store_of(tables, tmp_path) as store:
        a, year = store.keys_of(["a", "1950"]).tolist()
        assert first_reading(store, [a, year]).visited == {a}
        (one,) = extended(
            store, [ChainReading((), frozenset({a}))], np.array([[a, 0, -1, -1, year]])
        )
        assert one.visited == {a}


def test_a_chain_whose_tokens_are_not_its_ids_is_none(sample, models) -> None:
    """What the constraint said is not believed: tokens, store and growth are checked again."""
    topics = sample.keys_of([TOLKIEN]).tolist()
    llm = models[0]
    chains, paths = write(sample, llm, topics, beams=1)
    assert paths[0] is not None
    chain = chains[0]
    lexicon = PathLexicon(llm.encoder, FORM)
    start = first_reading(sample, topics)
    closing = chain.spans[0].hypothesis.tokens[-1:]
    rows = joined_rows(StoreTriplets(sample).around(keys_array(topics)))
    own = tuple(chain.spans[0].ground().topic.tolist()[:1])
    assert own
    for row in map(tuple, rows.tolist()):
        reading = ChainReading((row,), frozenset({row[0], row[4]}))
        single = type(chain)(chain.text, chain.prompt, pieces=(chain.spans[0],), stop="end token")
        found = chain_path(sample, lexicon, single, [reading], start, closing)
        table = chain.spans[0].ground()
        mine = {
            (topic, *hop)
            for topic, (hop,) in zip(table.topic.tolist(), table.hops.tolist(), strict=True)
        }
        assert (found is not None) == (row in mine)
    stranger = ChainReading(((*own, 0, -1, -1, own[0] + 1),), frozenset())
    assert chain_path(sample, lexicon, chain, [stranger], start, closing) is None
