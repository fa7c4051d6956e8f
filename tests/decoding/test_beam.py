"""The ranked list is that of ``generate`` under the same constraint."""

from __future__ import annotations

import json
import math
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.decoding.engine import DecodingRequest, Engine
from kgqa.decoding.generate import ConstraintLogitsProcessor
from kgqa.decoding.search import Hypothesis, run
from kgqa.decoding.searches import beam
from kgqa.errors import UsageError
from tests.decoding.languages import (
    EOS,
    PROMPT,
    ModelScorer,
    Moves,
    TableScorer,
    constraint_of,
    random_language,
    tiny_model,
)

CASES = 300
USUAL = 60
SHARED = Path(os.environ.get("KGQA_SHARED", Path(__file__).parents[3] / "shared"))
GRAPHS = SHARED / "data" / "gcr_question_graphs"


def generated(
    model: Any, prompt: list[int], constraint: Any, k: int, eos: int = EOS, **options: Any
) -> list[tuple[tuple[int, ...], float]]:
    """The sequences of ``generate`` and their scores, without the copies it fills its list with."""
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            num_beams=k,
            num_return_sequences=k,
            do_sample=False,
            eos_token_id=eos,
            logits_processor=[ConstraintLogitsProcessor(constraint, len(prompt), eos_token_id=eos)],
            return_dict_in_generate=True,
            output_scores=True,
            **({"max_new_tokens": 100} | options),
        )
    rows = [row[: row.index(eos) + 1] if eos in row else row for row in _after(out, len(prompt))]
    scores = out.sequences_scores.tolist() if k > 1 else [math.nan]  # greedy search reports none
    return [
        (tuple(row), score)
        for row, score in zip(rows, scores, strict=True)
        if not score < -1e6  # a copy has -1e9, divided by its length to a power
    ]


def _after(out: Any, prompt: int) -> list[list[int]]:
    rows: list[list[int]] = out.sequences[:, prompt:].tolist()
    return rows


def assert_same(
    found: list[Hypothesis], expected: list[tuple[tuple[int, ...], float]], penalty: float
) -> None:
    """The same ranked list; two places may be swapped only where their scores are equal."""
    ours = [(one.tokens, one.rank_score(penalty)) for one in found]
    assert len(ours) == len(expected)
    for (mine, score), (theirs, other) in zip(ours, expected, strict=True):
        if not math.isnan(other):
            back = math.pow(len(mine), penalty)  # sums, whatever the penalty made of them
            # a sum of some dozens of tokens, each rounded on its own way
            assert score * back == pytest.approx(other * back, abs=2e-4)
        if mine != theirs:
            again = dict(expected)
            assert again[mine] == pytest.approx(other, abs=2e-6)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.long] if case >= USUAL else [])
        for case in range(CASES)
    ],
)
def test_the_ranked_list_is_that_of_generate(case: int) -> None:
    choose = random.Random(case)
    family = ["llama", "mistral", "qwen2", "qwen3"][case % 4]
    k = choose.choice([1, 2, 3, 5, 10, 10, 20, 50])
    constraint = constraint_of(random_language(case, choose.randrange(k + 2, 4 * k + 30)))
    penalty = choose.choice([0.0, 0.0, 1.0, 1.0, 2.0, 0.6, -0.5, -1.0])
    limit = choose.choice([50, 100])
    model = tiny_model(family, case % 3)
    expected = generated(
        model,
        PROMPT,
        constraint,
        k,
        length_penalty=penalty,
        max_new_tokens=limit,
    )
    search = beam(constraint, k, length_penalty=penalty, max_new_tokens=limit)
    found = run(search, ModelScorer(model, constraint)).hypotheses
    assert_same(found, expected, penalty)


def test_what_a_limit_cuts_off_is_not_in_the_list() -> None:
    """``generate`` returns unfinished sequences at its limit; only its finished ones are ours."""
    constraint = constraint_of(random_language(7, 60))
    model = tiny_model("llama")
    for limit in (1, 6, 9, 12):
        theirs = generated(model, PROMPT, constraint, 10, length_penalty=0.0, max_new_tokens=limit)
        found = run(beam(constraint, 10, max_new_tokens=limit), ModelScorer(model, constraint))
        ours = [hypothesis.tokens for hypothesis in found.hypotheses]
        finished = [tokens for tokens, _ in theirs if tokens[-1] == EOS]
        assert [tokens for tokens in ours if tokens in finished] == finished
        assert all(tokens[-1] == EOS and len(tokens) <= limit for tokens in ours)


@given(seed=st.integers(0, 10_000), count=st.integers(1, 30))
@settings(max_examples=60)
def test_a_wide_beam_ranks_the_whole_language(seed: int, count: int) -> None:
    rows = random_language(seed, count)
    constraint = constraint_of(rows)
    table = TableScorer(constraint, seed)
    found = run(beam(constraint, count + 5), table).hypotheses
    expected = sorted((table.total(row) for row in rows), reverse=True)
    assert [one.log_probability for one in found] == pytest.approx(expected)
    assert {one.tokens for one in found} == {tuple(row) for row in rows}


@given(seed=st.integers(0, 10_000), count=st.integers(1, 60), k=st.integers(1, 12))
@settings(max_examples=60)
def test_nothing_outside_the_language_is_ever_written(seed: int, count: int, k: int) -> None:
    rows = random_language(seed, count)
    constraint = constraint_of(rows)
    table = TableScorer(constraint, seed)
    found = run(beam(constraint, k), table).hypotheses
    assert 1 <= len(found) <= k
    assert len({one.tokens for one in found}) == len(found)
    assert {one.tokens for one in found} <= {tuple(row) for row in rows}
    for one in found:
        assert one.log_probability == pytest.approx(table.total(one.tokens))
        assert constraint.is_end([one.state])[0]


def test_a_state_without_a_continuation_ends_the_hypothesis() -> None:
    language = Moves({0: [(3, 1, 0.9), (4, 2, 0.1)], 1: [], 2: [(EOS, 3, 1.0)]})
    found = run(beam(language, 5), language).hypotheses
    assert [one.tokens for one in found] == [(4, EOS)]


def test_equal_scores_keep_the_order_of_tokens() -> None:
    language = Moves({0: [(token, token, 0.25) for token in (9, 4, 7, 6)]})
    found = run(beam(language, 3), language).hypotheses
    assert [one.tokens for one in found] == [(4,), (6,), (7,)]


def test_one_path_is_what_a_greedy_search_writes() -> None:
    """Though the mean of the longer one is higher, and a length penalty of 1 ranks by it."""
    language = Moves({0: [(EOS, 8, 0.5), (4, 1, 0.45)], 1: [(5, 2, 1.0)], 2: [(EOS, 9, 1.0)]})
    one = run(beam(language, 1, length_penalty=1.0), language).hypotheses
    assert [each.tokens for each in one] == [(EOS,)]
    two = run(beam(language, 2, length_penalty=1.0), language).hypotheses
    assert [each.tokens for each in two] == [(4, 5, EOS), (EOS,)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "at least 1"),
        ({"k": 1, "max_new_tokens": 0}, "max_new_tokens"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_before_anything_is_scored(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        beam(constraint_of([[2, EOS]]), **options)


@pytest.mark.model
@pytest.mark.skipif(not GRAPHS.is_dir(), reason=f"no question graphs in {GRAPHS}")
@pytest.mark.parametrize(
    "question",
    [pytest.param(number, marks=[pytest.mark.long] if number >= 1 else []) for number in range(9)],
)
def test_real_questions_are_ranked_as_by_generate(question: int, kg_llm: Any) -> None:
    data = json.loads(sorted(GRAPHS.glob("*.json"))[question].read_text())
    k = 10 if question else 4
    encoder = kg_llm.encoder
    rows = encoder.encode([" " + text for text in data["paths_within_2_hops"]])
    constraint = constraint_of([[*row, encoder.eos_id] for row in rows])
    prompt = kg_llm.prompt_ids(data["question"], data["topic_entities"])
    expected = generated(
        kg_llm.model,
        prompt,
        constraint,
        k,
        eos=encoder.eos_id,
        length_penalty=0.0,
        max_new_tokens=200,
    )
    engine = Engine(kg_llm.model)
    job = DecodingRequest(prompt=prompt, constraint=constraint, search=beam(constraint, k))
    found = engine.decode(job).found().hypotheses
    assert len(found) == k
    assert_same(found, expected, 0.0)
    if question == 1:  # and by the plainest forward pass there is
        plain = ModelScorer(kg_llm.model, constraint, prompt)
        assert_same(run(beam(constraint, k), plain).hypotheses, expected, 0.0)
