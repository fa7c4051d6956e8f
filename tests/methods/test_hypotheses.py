"""A checkpoint that was trained to answers after each path, freely; the path's end is kept, too.

The checkpoint here is a tiny Llama with the markers as added tokens, taught four paths of the
bundled sample with four kinds of answers, in the published form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from transformers import AutoTokenizer

from kgqa.decoding.engine import DecodingPlan
from kgqa.methods.grounding import write_hypotheses
from kgqa.models.adapter import preset
from kgqa.models.kg_llm import KgLLM, make_special
from kgqa.models.prompt import lead_to_answer
from kgqa.models.tokenizer import HFEncoder
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import ground
from kgqa.paths.walk import WalkRules, walk
from kgqa.trie.lexicon import PathLexicon
from tests.fixtures import LINCOLN, TOLKIEN, random_model
from tests.methods.given import about, answered, gcr
from tests.tiny import tiny

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.answers.answer import Answer
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.paths.ground import GroundedPath

pytestmark = pytest.mark.model

CARD = replace(preset("gcr"), added_tokens=("<PATH>", "</PATH>"))
FORM = PathFormat(start="<PATH>", end="</PATH>")
RULES = WalkRules(hops=2, direction="out", mediators="keep")
QUESTION = "Where was he born?"
_STEPS = 150


@dataclass(frozen=True)
class Taught:
    """A model, the four paths that it writes, and what it says after each."""

    llm: KgLLM
    paths: list[GroundedPath]
    said: list[str]


@pytest.fixture(scope="module")
def bare_llm(smollm_folder: Path) -> KgLLM:
    """SmolLM2's tokenizer with the markers of GCR, before random weights."""
    tokenizer = AutoTokenizer.from_pretrained(smollm_folder)
    make_special(tokenizer, CARD)
    encoder = HFEncoder(tokenizer, vocab_size=len(tokenizer))
    llm = KgLLM(
        name="tiny",
        adapter=None,
        card=CARD,
        model=None,  # type: ignore[arg-type]
        tokenizer=tokenizer,
        encoder=encoder,
        device=torch.device("cpu"),
    )
    return random_model(llm, 3)


@pytest.fixture(scope="module")
def taught(sample: SqliteStore, bare_llm: KgLLM) -> Taught:
    table, _ = walk(sample, sample.keys_of([TOLKIEN]), RULES)
    every = [path for path in ground(sample, table, FORM) if path]
    short = [path for path in every if len(path.edges) == 1][:2]
    long = [path for path in every if len(path.edges) == 2 and path.edges[0] != short[0].edges[0]]
    first = {path.edges[0]: path for path in long if "." in path.edges[0].relation}
    paths = [*short, *list(first.values())[:2]]
    said = [paths[0].tail.name, "Atlantis", paths[2].edges[0].tail.name, ""]
    ids = [
        (
            bare_llm.prompt_ids(QUESTION, [paths[0].head.name]),
            [*_tokens(bare_llm, path), *lead_to_answer(CARD, bare_llm.tokenizer)],
            bare_llm.encoder.encode([f"{answer}\n"])[0],
        )
        for path, answer in zip(paths, said, strict=True)
    ]
    return Taught(replace(bare_llm, model=_teach(bare_llm, ids)), paths, said)


def _tokens(llm: KgLLM, path: GroundedPath) -> Sequence[int]:
    parts = [(edge.relation, edge.tail.name) for edge in path.edges]
    return PathLexicon(llm.encoder, FORM).sequence(path.head.name, parts)


def _teach(llm: KgLLM, ids: list[tuple[list[int], list[int], list[int]]]) -> Any:
    sizes = {"hidden_size": 64, "intermediate_size": 128, "tie_word_embeddings": True}
    tokens = {"bos_token_id": None, "eos_token_id": llm.encoder.eos_id}
    model = tiny(llm.encoder.vocab_size, 1, **sizes, **tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    rows = [[*a, *b, *c] for a, b, c in ids]
    longest = max(map(len, rows))
    padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    wanted = torch.zeros_like(padded, dtype=torch.bool)
    for number, (prompt, _, _) in enumerate(ids):
        wanted[number, len(prompt) : len(rows[number])] = True
    used, target = padded[wanted].unique(return_inverse=True)
    # tokens that never occur keep their small random embeddings, so their logits stay near zero
    others = torch.full((len(target), 1), math.log(llm.encoder.vocab_size))
    before = wanted.roll(-1, dims=1)
    least = len(rows) * math.log(len(rows)) / len(target)  # it cannot know which path comes
    for _ in range(_STEPS):
        hidden = model.model(input_ids=padded).last_hidden_state[before]
        logits = hidden @ model.get_input_embeddings().weight[used].T
        loss = torch.nn.functional.cross_entropy(torch.cat([logits, others], dim=1), target)
        if loss.item() < least + 0.1:
            break
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval().requires_grad_(False)


def ask(store: SqliteStore, llm: KgLLM, **options) -> Answer:
    return answered(store, gcr(llm, k=4, **options), about(store, TOLKIEN))


def test_what_was_written_and_the_end_of_the_path_are_both_kept(sample, taught: Taught) -> None:
    answer = ask(sample, taught.llm)
    found = {path.text: path for path in answer.paths}
    assert set(found) == {path.text for path in taught.paths}
    for path, said in zip(taught.paths, taught.said, strict=True):
        assert found[path.text].hypothesis == (said or path.tail.name)
        shown = found[path.text].to_dict()
        assert shown["hypothesis"] == (said or path.tail.name)
        assert shown["edges"][-1]["tail"]["id"] == path.tail.id, "the end is the graph's"
        assert shown["grounded"]


@pytest.mark.parametrize("options", [{}, {"expand": True, "answer_threshold": 0.0}])
def test_what_it_says_beyond_the_paths_is_marked(sample, taught: Taught, options) -> None:
    answer = ask(sample, taught.llm, **options)
    found = {ranked.name: ranked for ranked in answer.answers}
    right, beside, inside, silent = taught.paths
    assert not found["Atlantis"].grounded
    assert found["Atlantis"].id is None
    for node in (right.tail, beside.tail, inside.edges[0].tail, silent.tail):
        assert found[node.name].grounded
        assert found[node.name].id == node.id
    assert sum(ranked.score for ranked in answer.answers) <= 1.0 + 1e-9


def test_the_cost_of_the_answers_is_counted(sample, taught: Taught) -> None:
    llm = taught.llm
    with_answers = ask(sample, llm)
    without = ask(sample, llm.with_card(replace(CARD, answer="")))
    assert [path.text for path in without.paths] == [path.text for path in with_answers.paths]
    assert all(path.hypothesis == path.groundings[0].tail.name for path in without.paths)
    assert with_answers.forward_passes > without.forward_passes
    assert with_answers.kg_llm.generated_tokens > without.kg_llm.generated_tokens


@pytest.mark.parametrize("way", ["tree", "plain"])
def test_it_is_greedy_decoding_up_to_the_end_of_the_line(taught: Taught, way) -> None:
    """As ``generate`` writes it after each path alone."""
    llm = taught.llm
    prompt = llm.prompt_ids(QUESTION, [taught.paths[0].head.name])
    paths = [list(_tokens(llm, path)) for path in taught.paths]
    found = write_hypotheses(llm, DecodingPlan(way=way), prompt, paths)
    assert list(found.texts) == taught.said
    for path, text in zip(paths, found.texts, strict=True):
        ids = torch.tensor([[*prompt, *path, *lead_to_answer(CARD, llm.tokenizer)]])
        written = llm.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False
        )
        after = llm.encoder.decode(written[0, ids.shape[1] :].tolist())
        assert after.split("\n")[0].removesuffix("<|im_end|>").strip() == text


def test_an_answer_has_a_bound_and_no_special_token(bare_llm: KgLLM) -> None:
    """A model with random weights neither stops nor keeps to a language; the answer is bounded."""
    specials = set(bare_llm.tokenizer.all_special_tokens) | {"<PATH>", "</PATH>"}
    prompt = bare_llm.prompt_ids(QUESTION, ["Tolkien"])
    paths = [[bare_llm.encoder.marker_id("</PATH>")]] * 3
    for seed in range(3):
        llm = random_model(bare_llm, seed)
        found = write_hypotheses(llm, DecodingPlan(), prompt, paths, most_tokens=5)
        assert found.tokens <= 15
        assert len(found.texts) == 3
        assert not any(special in text for special in specials for text in found.texts)
        assert not any("\n" in text for text in found.texts)


def test_questions_together_say_the_same_as_each_alone(sample, taught: Taught) -> None:
    method = gcr(taught.llm, k=3, together=2)
    asked = [about(sample, one) for one in (TOLKIEN, LINCOLN)]
    both = dict(method.answers(sample, asked))
    for number, one in enumerate(asked):
        written = [(path.text, path.hypothesis) for path in answered(sample, method, one).paths]
        assert [(path.text, path.hypothesis) for path in both[number].paths] == written
