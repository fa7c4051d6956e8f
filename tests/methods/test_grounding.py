"""How much of its own words the model found in the graph: measured at their tokens alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from kgqa.answers.ranking import calibrated
from kgqa.decoding.engine import DecodingPlan, DecodingRequest, Engine
from kgqa.decoding.searches import beam
from kgqa.methods.grounding import ground_all
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.trie.composed import ComposedConstraint
from kgqa.trie.lexicon import PathLexicon
from tests.fixtures import LINCOLN, TOLKIEN
from tests.methods.given import about, answered, gcr

if TYPE_CHECKING:
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.ground import GroundedPath

RULES = WalkRules()


def parts_of(path: GroundedPath, lexicon: PathLexicon) -> list[list[int]]:
    return lexicon.parts(path.head.name, [(edge.relation, edge.tail.name) for edge in path.edges])


def places_of_relations(path: GroundedPath, lexicon: PathLexicon) -> list[int]:
    """The tokens of relations without the links around them."""
    found, at, link = [], 0, len(lexicon.link)
    for number, part in enumerate(parts_of(path, lexicon)[:-1]):
        if number > 1 and number % 2 == 0:
            found += range(at + link, at + len(part) - link)
        at += len(part)
    return found


def decoded(store, llm: KgLLM, way: str, rule: str):
    lexicon = PathLexicon(llm.encoder, PathFormat())
    prompt = llm.prompt_ids("Where was he born?", ["Tolkien"])
    found = []
    for coverage in (True, False):
        constraint = ComposedConstraint(store, store.keys_of([TOLKIEN]), RULES, lexicon)
        request = DecodingRequest(
            prompt=prompt,
            constraint=constraint,
            search=beam(constraint, 4),
            rule=rule,
            coverage=coverage,
        )
        found.append(Engine(llm.model, DecodingPlan(way=way)).decode(request))
    return lexicon, constraint, prompt, *found


@pytest.mark.parametrize("rule", ["allowed", "vocabulary"])
@pytest.mark.parametrize("way", ["tree", "plain"])
def test_coverage_is_the_share_of_all_probability_that_is_allowed(
    sample, random_llm, way: str, rule: str
) -> None:
    """Against the model run on the whole text, and every token that the constraint allows."""
    _, constraint, prompt, with_it, without = decoded(sample, random_llm, way, rule)
    hypotheses = with_it.found().hypotheses
    assert without.coverage == ()
    for one, same in zip(hypotheses, without.found().hypotheses, strict=True):
        assert one.tokens == same.tokens, "measuring changes nothing"
        assert one.log_probability == pytest.approx(same.log_probability, abs=1e-4)
    one, covered = hypotheses[0], with_it.coverage[0]
    assert len(covered) == len(one.tokens)
    with torch.inference_mode():
        logits = random_llm.model(torch.tensor([[*prompt, *one.tokens]])).logits[0]
    shares = logits[len(prompt) - 1 : -1].float().softmax(-1)
    state = constraint.start()
    for token, log_share, row in zip(one.tokens, covered, shares, strict=True):
        moves = constraint.expand([state])
        assert math.exp(log_share) == pytest.approx(float(row[moves.token].sum()), rel=1e-3)
        state = int(moves.state[moves.token.tolist().index(token)])


def test_it_is_taken_at_the_tokens_of_relations(sample, random_llm) -> None:
    lexicon, constraint, _, with_it, _ = decoded(sample, random_llm, "tree", "allowed")
    hypotheses = with_it.found().hypotheses
    paths, _ = ground_all(
        sample, constraint, lexicon, sample.keys_of([TOLKIEN]), hypotheses, (), with_it.coverage
    )
    for path, one, covered in zip(paths, hypotheses, with_it.coverage, strict=True):
        places = places_of_relations(path.groundings[0], lexicon)
        text = lexicon.encoder.decode([one.tokens[at] for at in places])
        assert text == "".join(f" {edge.relation}" for edge in path.groundings[0].edges)
        mean = math.fsum(covered[at] for at in places) / len(places)
        assert path.coverage == pytest.approx(math.exp(mean))
        parts = parts_of(path.groundings[0], lexicon)
        kinds = [number % 2 for number, part in enumerate(parts) for _ in part]  # 1: of a name
        lost = math.fsum(share for share, kind in zip(covered, kinds, strict=True) if not kind)
        assert path.lost == pytest.approx(lost)
    unmeasured, _ = ground_all(sample, constraint, lexicon, sample.keys_of([TOLKIEN]), hypotheses)
    assert {(path.coverage, path.lost) for path in unmeasured} == {(None, 0.0)}


def test_a_path_from_elsewhere_is_refused(sample, random_llm) -> None:
    lexicon, constraint, _, with_it, _ = decoded(sample, random_llm, "tree", "allowed")
    hypotheses = with_it.found().hypotheses
    paths, notes = ground_all(sample, constraint, lexicon, sample.keys_of([LINCOLN]), hypotheses)
    assert paths == []
    assert len(notes) == len(hypotheses)


def test_markers_before_the_path_are_counted(sample, random_llm) -> None:
    form = PathFormat(start="<|im_start|>", end="<|im_end|>")
    lexicon = PathLexicon(random_llm.encoder, form)
    constraint = ComposedConstraint(sample, sample.keys_of([TOLKIEN]), RULES, lexicon)
    outcome = Engine(random_llm.model).decode(
        DecodingRequest(prompt=[5, 6], constraint=constraint, search=beam(constraint, 2))
    )
    paths, _ = ground_all(
        sample, constraint, lexicon, sample.keys_of([TOLKIEN]), outcome.found().hypotheses
    )
    tokens = outcome.found().hypotheses[0].tokens
    places = places_of_relations(paths[0].groundings[0], lexicon)
    text = lexicon.encoder.decode([tokens[at] for at in places])
    assert text == "".join(f" {edge.relation}" for edge in paths[0].groundings[0].edges)


def test_a_model_that_would_write_something_else_gives_no_answer(sample, random_llm) -> None:
    """Random weights spread over the whole vocabulary: next to nothing of it is in the graph."""
    cases = [(0.3, 0.0, False), (0.0, 0.4, True), (None, 0.4, False), (None, 0.0, True)]
    for least, of_the_card, is_answered in cases:
        llm = random_llm.with_card(replace(random_llm.card, min_confidence=of_the_card))
        method = gcr(llm, score_rule="allowed", expand=True, min_confidence=least)
        answer = answered(sample, method, about(sample, TOLKIEN, question="Which?"))
        assert bool(answer.answers) == is_answered
        assert answer.confidence is not None
        assert answer.confidence < 0.1
        assert answer.others


@pytest.mark.parametrize(("slope", "shift"), [(0.5, -1.0), (3.0, 2.0), (1.0, 0.0)])
def test_a_confidence_never_falls_when_the_evidence_grows(slope: float, shift: float) -> None:
    found = [calibrated(number / 1000, slope, shift) for number in range(1001)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0.0, 1.0)
