"""Without the constraint: what is in the graph is grounded, and nothing else ever is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from kgqa.methods.retrieval import topic_paths
from kgqa.methods.unconstrained import FreePath, Unconstrained, ends, found_again
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.trie.lexicon import PathLexicon
from tests.fixtures import LINCOLN, TOLKIEN
from tests.methods.given import Given, about, answered, options_of, topic

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.models.kg_llm import KgLLM

pytestmark = pytest.mark.model
FORM = PathFormat()


def test_every_path_of_the_graph_is_found_again_by_its_text(
    sample: SqliteStore, kg_llm: KgLLM
) -> None:
    lexicon = PathLexicon(kg_llm.encoder, FORM)
    every = topic_paths(sample, [topic(sample, TOLKIEN)], WalkRules(), FORM, cap=100_000)
    texts = [group[0].text for group in every.groups][::3]
    # tokens that no path has: the text alone must lead to the path
    written = [FreePath(text, (0, 1, 2), -float(n)) for n, text in enumerate(texts)]
    for id_ in (TOLKIEN, LINCOLN):  # of another entity the path's head is known by name
        found = found_again(sample, [topic(sample, id_).key], written, WalkRules(), lexicon)
        assert [path.text for path in found] == texts
        assert all(path.groundings for path in found)
        assert [path.score for path in found] == [one.score for one in written]


def test_what_the_graph_does_not_hold_is_never_grounded(sample: SqliteStore, kg_llm: KgLLM) -> None:
    lexicon = PathLexicon(kg_llm.encoder, FORM)
    mine = topic(sample, TOLKIEN)
    true = topic_paths(sample, [mine], WalkRules(), FORM, cap=100_000).groups[0][0].text
    head, relation, _ = true.split(" -> ")[:3]
    false = [
        f"{head} -> {relation} -> Atlantis",
        f"{head} -> no.such.relation -> {true.split(' -> ')[2]}",
        f"Nobody -> {relation} -> {true.split(' -> ')[2]}",
        f"{head} -> {relation}",
        head,
        f"{true} -> ",
    ]
    written = [FreePath(text, (), -float(n)) for n, text in enumerate([*false, true, true, ""])]
    found = found_again(sample, [mine.key], written, WalkRules(), lexicon)
    assert [path.text for path in found] == [*false, true]  # each once, nothing empty
    assert [bool(path.groundings) for path in found] == [False] * len(false) + [True]
    shown = [path.to_dict()["grounded"] for path in found]
    assert shown == [False] * len(false) + [True]
    answers = ends(found)
    assert sum(one.score for one in answers) == pytest.approx(1.0)
    assert [one.score for one in answers] == sorted((o.score for o in answers), reverse=True)
    grounded = [one for one in answers if one.grounded]
    assert {one.id for one in grounded} == {one.tail.id for one in found[-1].groundings}
    assert all(one.id is None for one in answers if not one.grounded)
    assert answers[0].name == "Atlantis"  # the most probable end, and known to be none


@pytest.mark.parametrize("k", [1, 3])
def test_a_model_writes_freely(sample: SqliteStore, random_llm: KgLLM, k: int) -> None:
    """A model with random weights writes nothing that is there, and the answer says so."""
    import torch

    options = options_of(Unconstrained.Options, k=k, path_tokens=6)
    method = Unconstrained(options, Given(random_llm))
    asking = about(sample, TOLKIEN)
    answer = answered(sample, method, asking)
    assert 1 <= len(answer.paths) <= k
    assert not any(path.groundings for path in answer.paths)
    assert not any(one.grounded for one in answer.answers)
    assert len(answer.notes) == len(answer.paths)
    assert answer.facts() == []
    # the score is the sum of the log-probabilities of what was written
    prompt = random_llm.prompt_ids(asking.question, [asking.topics[0].name])
    first = max(method._free_paths(prompt), key=lambda one: one.score)
    tokens = list(first.tokens[:-1])
    with torch.no_grad():
        logits = random_llm.model(torch.tensor([[*prompt, *tokens]])).logits[0]
    logs = torch.log_softmax(logits.float(), -1)[len(prompt) - 1 : -1]
    by_hand = sum(float(row[token]) for row, token in zip(logs, tokens, strict=True))
    if len(tokens) == 6:  # it never ended, so the closing token has no part in the score
        assert first.score == pytest.approx(by_hand, abs=1e-2)
    else:
        assert math.isfinite(first.score)
