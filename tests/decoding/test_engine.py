"""Several searches share forward passes and find what each finds alone, whatever goes wrong."""

from __future__ import annotations

import itertools
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.deadline import check_deadline
from kgqa.decoding.engine import DecodingOutcome, DecodingPlan, DecodingRequest, Engine
from kgqa.decoding.search import ExactOptions, run
from kgqa.decoding.searches import ExactSearch, beam
from kgqa.errors import ModelError, StoreUnavailableError, TimeLimitError, UsageError
from kgqa.progress import Silent
from tests.decoding.languages import (
    EOS,
    PROMPT,
    VOCABULARY,
    ModelScorer,
    constraint_of,
    random_language,
    tiny_model,
)
from tests.decoding.test_forward import FAMILIES, same
from tests.decoding.test_plain import sliding, state_space


def questions(count: int, *, seed: int = 0) -> list[tuple[list[int], object, int]]:
    """Prompts of different lengths, their languages and how many paths are wanted."""
    return [
        (
            [2 + (seed + one * 7 + at) % 50 for at in range(3 + one % 5)],
            constraint_of(random_language(seed + one, 3 + (one * 11) % 30)),
            1 + one % 6,
        )
        for one in range(count)
    ]


def request(prompt, constraint, k, **more) -> DecodingRequest:
    return DecodingRequest(prompt=prompt, constraint=constraint, search=beam(constraint, k), **more)


def alone(model, prompt, constraint, k):
    return run(beam(constraint, k), ModelScorer(model, constraint, prompt))


class OutOfMemoryAbove:
    """The model's forward fails as a device out of memory does, above so many tokens."""

    def __init__(self, model, tokens: int) -> None:
        self.model, self.tokens, self.widths = model, tokens, []

    def __enter__(self) -> OutOfMemoryAbove:
        def note(_module, _args, kwargs) -> None:
            self.widths.append(kwargs["input_ids"].numel())

        def fail(*_: object) -> None:  # late: the first layer has cached its keys already
            if self.widths[-1] > self.tokens:
                raise torch.OutOfMemoryError("out of memory")

        self._hooks = [
            self.model.register_forward_pre_hook(note, with_kwargs=True),
            self.model.model.layers[-1].register_forward_pre_hook(fail),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()


@pytest.mark.parametrize("family", FAMILIES)
@given(
    seed=st.integers(0, 1_000),
    count=st.integers(1, 9),
    together=st.integers(1, 5),
    budget=st.integers(1, 150),
)
@settings(max_examples=8)
def test_together_each_finds_what_it_finds_alone(
    family: str, seed: int, count: int, together: int, budget: int
) -> None:
    model, asked = tiny_model(family), questions(count, seed=seed)
    engine = Engine(model, DecodingPlan(budget=budget), together=together)
    found = dict(engine.run(request(*one) for one in asked))
    assert sorted(found) == list(range(count))
    for number, one in enumerate(asked):
        assert same(found[number].found(), alone(model, *one))


@pytest.mark.parametrize("family", FAMILIES)
@given(
    seed=st.integers(0, 1_000),
    together=st.integers(1, 4),
    budget=st.integers(1, 60),
    exact=st.booleans(),
)
@settings(max_examples=8)
def test_forced_tokens_that_are_not_run_change_nothing(
    family: str, seed: int, together: int, budget: int, exact: bool
) -> None:
    """By the rule "allowed", against whole prefixes, where every token is run: coverage too."""
    model, asked = tiny_model(family), questions(5, seed=seed)

    def outcomes(way: Literal["tree", "plain"]) -> list[DecodingOutcome]:
        engine = Engine(model, DecodingPlan(way=way, budget=budget), together=together)
        requests = (
            DecodingRequest(
                prompt=prompt,
                constraint=constraint,
                search=ExactSearch(ExactOptions()).start(constraint, k)
                if exact
                else beam(constraint, k),
                rule="allowed",
                coverage=number % 2 == 0,
            )
            for number, (prompt, constraint, k) in enumerate(asked)
        )
        return [outcome for _, outcome in sorted(engine.run(requests), key=lambda one: one[0])]

    for one, other in zip(outcomes("tree"), outcomes("plain"), strict=True):
        assert same(one.found(), other.found())
        assert len(one.coverage) == len(other.coverage)
        for mine, theirs in zip(one.coverage, other.coverage, strict=True):
            assert mine == pytest.approx(theirs, abs=1e-4)


def test_one_path_needs_the_model_for_its_coverage_only() -> None:
    language = constraint_of([[5, *range(10, 30), EOS]])

    def passes(**more: Any) -> int:
        engine = Engine(tiny_model("llama"), DecodingPlan(budget=1))
        assert engine.decode(request(PROMPT, language, 2, **more)).found().hypotheses
        return engine.forward_passes

    assert passes(rule="allowed") == 1
    assert passes(rule="allowed", coverage=True) == 2
    assert passes() == 22


def test_together_they_need_fewer_forwards() -> None:
    model, asked = tiny_model("llama"), questions(8)
    forward_passes = []
    for together in (1, 8):
        engine = Engine(model, DecodingPlan(budget=8), together=together)
        outcomes = [outcome for _, outcome in engine.run(request(*one) for one in asked)]
        forward_passes.append(engine.forward_passes)
        assert all(outcome.seconds > 0 for outcome in outcomes)
    assert forward_passes[1] < forward_passes[0]
    assert forward_passes[1] >= max(outcome.forward_passes for outcome in outcomes)


def test_a_question_takes_the_place_of_one_that_has_ended() -> None:
    taken: list[int] = []

    def requests():
        for number, one in enumerate(questions(6)):
            taken.append(number)
            yield request(*one)

    for place, _ in enumerate(Engine(tiny_model("llama"), together=2).run(requests())):
        assert len(taken) <= place + 2  # never more at a time than asked
    assert taken == list(range(6))


@pytest.mark.parametrize("make", [state_space, lambda: sliding(6)])
def test_a_model_without_trees_gives_the_same_lists(make) -> None:
    model, asked = make(), questions(3)
    engine = Engine(model, DecodingPlan(way="plain"), together=2)
    found = dict(engine.run(request(*one) for one in asked))
    for number, one in enumerate(asked):
        assert same(found[number].found(), alone(model, *one))


def test_beyond_its_window_a_model_is_run_plainly() -> None:
    """Trees up to the limit, whole prefixes beyond it, and the list of the plain model."""
    model, asked = sliding(10), questions(4)
    engine = Engine(model, DecodingPlan(limit=10), together=2)
    found = dict(engine.run(request(*one) for one in asked))
    for number, one in enumerate(asked):
        assert same(found[number].found(), alone(model, *one))


@pytest.mark.parametrize(("way", "room"), [("tree", 30), ("tree", 9), ("plain", 30)])
def test_out_of_memory_halves_once_says_so_and_goes_on(way, room: int) -> None:
    model, asked, progress = tiny_model("llama"), questions(3), Silent()
    engine = Engine(
        model, DecodingPlan(way=way, budget=2 * room - 8), together=1, progress=progress
    )
    with OutOfMemoryAbove(model, room) as memory:
        found = dict(engine.run(request(*one) for one in asked))
    assert max(memory.widths) > room  # it did run out
    assert len(progress.notes) == 1
    assert "Memory ran out" in progress.notes[0]
    for number, one in enumerate(asked):
        assert same(found[number].found(), alone(model, *one))


def test_a_prompt_too_wide_for_memory_is_run_in_pieces() -> None:
    model, constraint = tiny_model("llama"), constraint_of(random_language(3, 9))
    prompt = [2 + at % 50 for at in range(50)]
    with OutOfMemoryAbove(model, 40):
        outcome = Engine(model, DecodingPlan(budget=4), progress=Silent()).decode(
            request(prompt, constraint, 4)
        )
    assert same(outcome.found(), alone(model, prompt, constraint, 4))


@pytest.mark.parametrize("coverage", [False, True])
def test_names_of_thousands_of_tokens_pass_in_pieces(coverage: bool) -> None:
    """Each piece ends soon, and the time limit is looked at between two."""
    rows = [[5, first, *(2 + (first + at) % 50 for at in range(1_500)), EOS] for first in (3, 4, 6)]
    model, constraint = tiny_model("llama"), constraint_of(rows)

    def decoded(**more: Any) -> DecodingOutcome:
        engine = Engine(model, DecodingPlan(budget=64), clock=lambda: float(next(ticks)))
        return engine.decode(
            request(PROMPT, constraint, 3, rule="allowed", coverage=coverage, **more)
        )

    with OutOfMemoryAbove(model, 1_024) as memory:
        ticks = itertools.count()
        assert len(decoded().found().hypotheses) == 3
        assert max(memory.widths) > (1_000 if coverage else 0)
        ticks = itertools.count()
        if coverage:
            with pytest.raises(TimeLimitError):
                decoded(time_limit=4.0).found()


def test_memory_that_still_does_not_suffice_is_an_error_with_a_hint() -> None:
    model, asked = tiny_model("llama"), questions(2)
    engine = Engine(model, together=2)
    with OutOfMemoryAbove(model, 0):
        outcomes = [outcome for _, outcome in engine.run(request(*one) for one in asked)]
    assert len(outcomes) == 2
    for outcome in outcomes:
        with pytest.raises(ModelError, match="again"):
            outcome.found()
        assert "`k`" in outcome.error.hint


def test_a_time_limit_ends_one_question_and_no_other() -> None:
    model, asked = tiny_model("llama"), questions(3)
    ticks = itertools.count()
    engine = Engine(model, DecodingPlan(budget=1), together=3, clock=lambda: float(next(ticks)))
    requests = [
        request(*one, time_limit=4.0 if number == 1 else None) for number, one in enumerate(asked)
    ]
    found = dict(engine.run(requests))
    with pytest.raises(TimeLimitError, match="4 s"):
        found[1].found()
    for number in (0, 2):
        assert same(found[number].found(), alone(model, *asked[number]))
    assert same(engine.decode(request(*asked[1])).found(), alone(model, *asked[1]))


def test_a_time_limit_ends_work_inside_a_constraint() -> None:
    class Endless:
        """A constraint whose moves take for ever to find."""

        def __init__(self, inner) -> None:
            self.start, self.is_end, self.ground = inner.start, inner.is_end, inner.ground

        def expand(self, _: object) -> None:
            for _ in range(1_000_000):
                check_deadline()
            raise AssertionError("nothing ended it")

    model, (asked, other) = tiny_model("llama"), questions(2)
    ticks = itertools.count()
    engine = Engine(model, DecodingPlan(budget=4), together=2, clock=lambda: float(next(ticks)))
    stuck = request(asked[0], Endless(asked[1]), asked[2], time_limit=500.0)
    found = dict(engine.run([stuck, request(*other)]))
    with pytest.raises(TimeLimitError, match="500 s"):
        found[0].found()
    assert same(found[1].found(), alone(model, *other))


def test_ctrl_c_leaves_an_engine_that_can_be_used_again() -> None:
    model, asked = tiny_model("llama"), questions(3)
    engine = Engine(model, DecodingPlan(budget=4), together=3)
    requests = [request(*one) for one in asked]

    def interrupt(*_: object) -> None:
        if engine.forward_passes == 2:
            raise KeyboardInterrupt

    hook = model.model.layers[1].register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(engine.run(requests))
    hook.remove()
    assert all(one.search.gi_frame is None for one in requests)  # closed, nothing is left running
    for number, outcome in engine.run(request(*one) for one in asked):
        assert same(outcome.found(), alone(model, *asked[number]))


def test_a_run_that_is_given_up_frees_the_engine() -> None:
    engine = Engine(tiny_model("llama"), together=2)
    asked = questions(4)
    running = engine.run(request(*one) for one in asked)
    next(running)
    with pytest.raises(UsageError, match="already"):
        next(engine.run([request(*asked[0])]))
    running.close()
    assert engine.decode(request(*questions(1)[0])).found().hypotheses


def test_one_question_s_fault_is_not_another_s() -> None:
    model, asked = tiny_model("llama"), questions(2)

    class Down:
        def __init__(self, inner) -> None:
            self.start, self.is_end = inner.start, inner.is_end

        def expand(self, states):
            raise StoreUnavailableError("The store went away.")

    strange = constraint_of([[2, VOCABULARY + 3, EOS]])
    requests = [
        request(*asked[0]),
        request([3, 4], Down(asked[0][1]), 2),
        request([3, 4], strange, 2),
        request([], asked[0][1], 2),
        request(*asked[1]),
    ]
    found = dict(Engine(model, together=5).run(requests))
    assert isinstance(found[1].error, StoreUnavailableError)
    assert isinstance(found[2].error, ModelError)
    assert isinstance(found[3].error, ModelError)
    assert same(found[0].found(), alone(model, *asked[0]))
    assert same(found[4].found(), alone(model, *asked[1]))


def test_no_question_at_a_time_is_refused() -> None:
    with pytest.raises(UsageError, match="At least 1"):
        Engine(tiny_model("llama"), together=0)


@pytest.mark.parametrize("seed", range(3))
def test_exact_search_goes_beyond_a_window_and_back(seed: int) -> None:
    """It demands deep prefixes and shallow ones at once: some are run plainly, some in a tree."""
    model, constraint, prompt = sliding(12), constraint_of(random_language(seed, 80)), [3, 4, 5]
    exact = ExactSearch(ExactOptions(), width=10)
    one = DecodingRequest(prompt=prompt, constraint=constraint, search=exact.start(constraint, 30))
    found = Engine(model, DecodingPlan(limit=12, budget=1)).decode(one).found()
    plain = ModelScorer(model, constraint, prompt)
    assert same(found, run(exact.start(constraint, 30), plain))


def test_each_of_several_has_tokens_of_its_own() -> None:
    """Eight that share a budget of 16 would have two each, and one pass a token."""
    language = constraint_of(random_language(3, 30))

    def passes(together: int) -> int:
        engine = Engine(tiny_model("llama"), DecodingPlan(budget=16), together=together)
        requests = [
            DecodingRequest(prompt=PROMPT, constraint=language, search=beam(language, 4))
            for _ in range(together)
        ]
        assert len(list(engine.run(requests))) == together
        return engine.forward_passes

    assert passes(8) <= passes(1) * 16 / 12 + 2
