"""Passes of fixed shapes give the scores of the usual ones, captured or not, whatever fails."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.decoding import cuda_graphs, fixed_shapes
from kgqa.decoding import model as model_module
from kgqa.decoding.engine import DecodingPlan, DecodingRequest, Engine
from kgqa.decoding.fixed_shapes import FixedForward, batch_of, inputs_of, shape_of, tree_forward
from kgqa.decoding.forward import PackedPass, PromptTree, TreeForward, WavePart
from kgqa.decoding.search import ExactOptions
from kgqa.decoding.searches import ExactSearch
from kgqa.decoding.speculative_tree import NO_TOKEN, PrefixTree
from kgqa.decoding.widths import part_of
from kgqa.errors import ModelError
from kgqa.models.llama import Llama, fused
from kgqa.progress import Silent
from tests.decoding.languages import (
    EOS,
    VOCABULARY,
    constraint_of,
    random_language,
    tiny_model,
)
from tests.decoding.test_engine import questions, request
from tests.decoding.test_forward import same

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kgqa.decoding.engine import DecodingOutcome
    from kgqa.decoding.model import ColumnCache, FixedBatch


@cache
def llama() -> Llama:
    model = tiny_model("llama")
    return Llama(model.config.to_dict(), fused(model))


class Notes(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)


class Replaying:
    """Captures a pass as the function that runs it, which reads its inputs again at each replay."""

    def __init__(self, wrong: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        self.warmed = self.recorded = self.replayed = self.resets = 0
        self._wrong = wrong or (lambda result: result)

    def warm(self, run: Callable[[], torch.Tensor]) -> torch.Tensor:
        self.warmed += 1
        return run()

    def record(self, run: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        self.recorded += 1

        def replay() -> torch.Tensor:
            self.replayed += 1
            return self._wrong(run())

        return replay

    def reset(self) -> None:
        self.resets += 1


class Refusing(Replaying):
    """A driver that refuses to capture."""

    def record(self, run: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        raise RuntimeError("operation not permitted when stream is capturing\nmore lines")


def capturing(capture: Any, progress: Notes, **more: Any) -> Engine:
    """An engine whose passes are captured by ``capture``."""
    engine = Engine(llama(), fixed=True, progress=progress, **more)
    engine._tree = FixedForward(llama(), capture, progress.note)
    return engine


def outcomes(engine: Engine, requests: Sequence[DecodingRequest]) -> list[DecodingOutcome]:
    return [found for _, found in sorted(engine.run(requests), key=lambda one: one[0])]


def all_same(found: Sequence[DecodingOutcome], expected: Sequence[DecodingOutcome]) -> bool:
    pairs = zip(found, expected, strict=True)
    return all(same(one.found(), other.found()) for one, other in pairs)


def usual(asked: Sequence[Any], **plan: Any) -> list[DecodingOutcome]:
    engine = Engine(llama(), DecodingPlan(**plan), together=4, fixed=False)
    return outcomes(engine, [request(*one) for one in asked])


@given(
    seed=st.integers(0, 1_000),
    count=st.integers(1, 9),
    together=st.integers(1, 9),
    budget=st.integers(1, 150),
)
@settings(max_examples=25)
def test_ranked_lists_are_those_of_usual_passes(
    seed: int, count: int, together: int, budget: int
) -> None:
    """Beams forget prefixes, questions end and others take their columns."""
    asked = questions(count, seed=seed)
    engine = Engine(llama(), DecodingPlan(budget=budget), together=together, fixed=True)
    requests = [request(*one) for one in asked]
    assert all_same(outcomes(engine, requests), usual(asked, budget=budget))
    again = [request(*one) for one in asked]  # an engine keeps its cache for the next run
    assert all_same(outcomes(engine, again), usual(asked, budget=budget))


@pytest.mark.parametrize("rule", ["vocabulary", "allowed"])
@given(seed=st.integers(0, 1_000), together=st.integers(1, 4), budget=st.integers(1, 60))
@settings(max_examples=8)
def test_exact_search_and_coverage_are_those_of_usual_passes(
    rule: Any, seed: int, together: int, budget: int
) -> None:
    asked = questions(5, seed=seed)

    def found(fixed: bool) -> list[DecodingOutcome]:
        engine = Engine(llama(), DecodingPlan(budget=budget), together=together, fixed=fixed)
        requests = [
            DecodingRequest(
                prompt=prompt,
                constraint=constraint,
                search=ExactSearch(ExactOptions()).start(constraint, k),
                rule=rule,
                coverage=number % 2 == 0,
            )
            for number, (prompt, constraint, k) in enumerate(asked)
        ]
        return outcomes(engine, requests)

    mine, theirs = found(True), found(False)
    assert all_same(mine, theirs)
    for one, other in zip(mine, theirs, strict=True):
        for covered, expected in zip(one.coverage, other.coverage, strict=True):
            assert covered == pytest.approx(expected, abs=1e-4)


@given(seed=st.integers(0, 5_000), counts=st.lists(st.integers(2, 40), min_size=1, max_size=5))
@settings(max_examples=25)
def test_the_mask_made_of_integers_is_the_mask_of_the_pass(seed: int, counts: list[int]) -> None:
    forward = FixedForward(llama(), None, lambda _: None)
    asked = [
        PromptTree([7] * (1 + at * 3), PrefixTree(constraint_of(random_language(seed + at, count))))
        for at, count in enumerate(counts)
    ]
    for budget in (9, 30):
        parts = []
        for one in asked:
            states = [one.tree.start, *(state for state in one.cached if state != one.tree.start)]
            below = one.tree.expansion(states).state.tolist()
            ends = one.tree._constraint.is_end(below)
            nodes = [one.tree.node(s) for s, end in zip(below, ends, strict=True) if not end]
            new = [node for node in nodes if node.state not in one.cached]
            start = [one.tree.node(one.tree.start)] if one.uncached else []
            parts.append(WavePart(one, one.uncached, [*start, *new][:budget]))
        parts = [part for part in parts if part.tokens]
        packed = PackedPass(parts, forward.cache.take(sum(part.tokens for part in parts)))
        shape = shape_of(packed)
        batch = batch_of(shape, torch.from_numpy(inputs_of(packed, shape)))
        width = len(forward.cache._used)
        grid = np.zeros((shape.questions, shape.longest, width), bool)
        held = batch.held.view(shape.questions, shape.columns).numpy()
        for question, row, column in np.argwhere(batch.seen.numpy()):
            grid[question, row, held[question, column]] = True
        found = grid.reshape(-1, width)[batch.places.numpy()]
        assert (found[: len(packed.tokens)] == packed.seen(width)).all()
        used = np.zeros(len(grid.reshape(-1, width)), bool)
        used[batch.places.numpy()[: len(packed.tokens)]] = True
        padding = grid.reshape(-1, width)[~used]
        assert (padding.sum(1) == 1).all()
        assert padding[:, 0].all(), "padding attends to the scratch column alone"
        assert not found[: len(packed.tokens), 0].any()
        packed.commit()


def test_a_cache_that_has_to_grow_keeps_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "_LEAST_FIXED", 32)
    asked, capture, progress = questions(8, seed=3), Replaying(), Notes()
    engine = capturing(capture, progress, together=8)
    for _ in range(3):
        found = outcomes(engine, [request(*one) for one in asked])
        assert all_same(found, usual(asked))
    assert engine._tree.cache.generation > 0
    assert capture.replayed
    assert not progress.said


def test_passes_of_a_shape_are_captured_when_they_come_again() -> None:
    asked, capture, progress = questions(6, seed=5), Replaying(), Notes()
    engine = capturing(capture, progress, together=3)
    for _ in range(4):
        assert all_same(outcomes(engine, [request(*one) for one in asked]), usual(asked))
    assert 0 < capture.recorded <= capture.warmed
    assert engine._tree.passes.captured == capture.recorded
    assert capture.replayed > 2 * capture.recorded
    assert not progress.said


@pytest.mark.parametrize(
    "capture",
    [
        Refusing(),
        Replaying(wrong=lambda result: result + 0.5),
        Replaying(wrong=lambda result: result * torch.nan),
    ],
)
def test_a_graph_that_cannot_be_trusted_is_not_used(capture: Replaying) -> None:
    asked, progress = questions(6, seed=5), Notes()
    engine = capturing(capture, progress, together=3)
    for _ in range(3):
        assert all_same(outcomes(engine, [request(*one) for one in asked]), usual(asked))
    assert engine._tree.passes.captured == 0
    (note,) = progress.said  # once
    assert "without CUDA graphs" in note
    assert "\n" not in note


def test_a_graph_without_work_is_not_taken_for_one_that_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if kernels had run during the capture, on a stream that is not captured."""
    for name in ("device", "stream", "graph", "Stream", "CUDAGraph", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, MagicMock())
    restored: list[object] = []
    monkeypatch.setattr(torch.cuda, "set_stream", restored.append)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: None)
    asked, progress = questions(4, seed=5), Notes()
    engine = capturing(cuda_graphs.CudaCapture(torch.device("cuda")), progress, together=2)
    for _ in range(2):
        assert all_same(outcomes(engine, [request(*one) for one in asked]), usual(asked))
    (note,) = progress.said
    assert "other numbers" in note
    assert len(restored) == 1


def test_graphs_are_dropped_when_buffers_move_and_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda_graphs, "_MOST", 2)
    capture = Replaying()
    passes = cuda_graphs.FixedPasses(
        lambda _, inputs: inputs * 2.0, torch.device("cpu"), capture, pytest.fail
    )

    def run(shape: int, generation: int = 0) -> None:
        inputs = np.arange(shape, dtype=np.int32)
        assert passes(shape, inputs, shape, generation).tolist() == (inputs * 2.0).tolist()

    for shape in (3, 3, 4, 4, 5, 5):
        run(shape)
    assert passes.captured == 2
    assert not capture.resets, "a pool is not reset while graphs use it"
    run(5, generation=1)
    assert passes.captured == 0
    assert capture.resets == 1


def test_a_pass_larger_than_all_shapes_runs_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixed_shapes, "_TOKENS", (16,))
    asked = questions(6, seed=2)
    engine = Engine(llama(), DecodingPlan(budget=40), together=3, fixed=True)
    assert all_same(outcomes(engine, [request(*one) for one in asked]), usual(asked, budget=40))


class Small(Llama):
    """A model whose passes run out of memory above 64 tokens, padding included."""

    def fixed_states(self, batch: FixedBatch, cache: ColumnCache) -> torch.Tensor:
        states = super().fixed_states(batch, cache)
        if len(batch.tokens) > 64:
            raise torch.OutOfMemoryError("out of memory")
        return states


def test_out_of_memory_halves_the_passes_and_frees_the_graphs() -> None:
    model = tiny_model("llama")
    small = Small(model.config.to_dict(), fused(model))
    asked, progress = questions(4, seed=1), Notes()
    engine = Engine(small, DecodingPlan(budget=100), together=2, progress=progress, fixed=True)
    assert all_same(outcomes(engine, [request(*one) for one in asked]), usual(asked))
    assert [note for note in progress.said if "Memory ran out" in note]


def test_a_failed_pass_leaves_no_column_without_an_owner() -> None:
    forward = FixedForward(llama(), None, lambda _: None)
    constraint = constraint_of(random_language(6, 30))
    tree = PrefixTree(constraint)
    asked = PromptTree([3, 4, 5], tree)
    wave = tree.choose([tree.start], 20)

    def fail(*_: object) -> torch.Tensor:
        raise KeyboardInterrupt

    passes, forward.passes = forward.passes, fail
    with pytest.raises(KeyboardInterrupt):
        forward.score([WavePart(asked, 3, wave)])
    assert forward.cache.used == 0
    forward.passes = passes
    forward.score([WavePart(asked, 3, wave)])
    assert forward.cache.used == len(asked.all_columns())
    forward.clear()
    assert forward.cache.used == 0


GPU = {1: 5.0, 16: 5.0, 64: 5.0, 128: 5.0, 256: 7.5, 512: 14.0, 1_024: 28.0, 2_048: 56.0}


def test_on_a_gpu_each_part_of_a_shared_pass_follows_from_measured_times() -> None:
    asked = questions(6, seed=4)
    plan = DecodingPlan(budget=512, milliseconds=GPU)
    engine = Engine(llama(), plan, together=6, fixed=True)
    assert engine._share(16) == 32, "on a CPU as before"
    engine._by_time = True
    assert engine._share(1) == 512
    assert engine._share(16) == part_of(GPU, 16)
    assert all_same(outcomes(engine, [request(*one) for one in asked]), usual(asked))


def test_a_pass_is_begun_before_the_last_one_is_waited_for() -> None:
    """With many questions; each half of them has a pass of its own."""
    asked = questions(9, seed=7)
    engine = Engine(llama(), DecodingPlan(budget=8), together=6, fixed=True)
    events: list[str] = []
    begin = engine._tree.begin

    def noting(parts: Sequence[WavePart]) -> Callable[[], None]:
        events.append("begin")
        finish = begin(parts)

        def noted() -> None:
            events.append("finish")
            finish()

        return noted

    engine._tree.begin = noting
    assert all_same(outcomes(engine, [request(*one) for one in asked]), usual(asked))
    assert events[:5] == ["begin", "begin", "finish", "begin", "finish"]
    assert events[-1] == "finish"
    assert events.count("begin") == events.count("finish") == engine.forward_passes


@pytest.mark.parametrize("together", [1, 4, 6])
def test_one_question_s_fault_ends_it_alone_in_overlapping_passes(together: int) -> None:
    asked = questions(7, seed=8)
    strange = constraint_of([[2, VOCABULARY + 3, EOS]])  # a token that the model does not know
    engine = Engine(llama(), DecodingPlan(budget=20), together=together, fixed=True)
    requests = [request(*one) for one in asked]
    requests.insert(2, request([3, 4], strange, 2))
    found = outcomes(engine, requests)
    assert isinstance(found.pop(2).error, ModelError)
    assert all_same(found, usual(asked))
    assert engine._tree.cache.used == 0


def test_ctrl_c_while_a_pass_is_under_way_leaves_an_engine_that_can_be_used_again() -> None:
    asked = questions(8, seed=9)
    engine = Engine(llama(), DecodingPlan(budget=8), together=6, fixed=True)
    begin, begun = engine._tree.begin, []

    def interrupted(parts: Sequence[WavePart]) -> Callable[[], None]:
        begun.append(parts)
        if len(begun) == 4:
            raise KeyboardInterrupt
        return begin(parts)

    engine._tree.begin = interrupted
    with pytest.raises(KeyboardInterrupt):
        outcomes(engine, [request(*one) for one in asked])
    assert engine._tree.cache.used == 0
    assert all_same(outcomes(engine, [request(*one) for one in asked]), usual(asked))


def test_memory_that_runs_out_when_a_pass_is_waited_for_is_halved_too() -> None:
    asked, progress = questions(8, seed=2), Notes()
    engine = Engine(llama(), DecodingPlan(budget=9), together=8, fixed=True, progress=progress)
    begin, begun = engine._tree.begin, []

    def failing(parts: Sequence[WavePart]) -> Callable[[], None]:
        begun.append(parts)
        finish = begin(parts)

        def fail() -> None:
            raise torch.OutOfMemoryError("out of memory")

        return fail if len(begun) == 3 else finish

    engine._tree.begin = failing
    assert all_same(outcomes(engine, [request(*one) for one in asked]), usual(asked))
    assert len(progress.said) == 1


def test_shapes_are_fixed_on_cuda_alone_unless_asked_for() -> None:
    assert type(tree_forward(llama())) is TreeForward
    assert type(tree_forward(llama(), fixed=True)) is FixedForward
    assert type(tree_forward(tiny_model("llama"), fixed=True)) is TreeForward


def test_the_scratch_column_is_never_given_out() -> None:
    cache = model_module.ColumnCache(scratch=True)
    taken = cache.take(3_000)
    assert 0 not in taken
    assert cache.used == 3_000
    cache.free()
    assert cache.used == 0
    assert 0 not in cache.take(5)


def test_a_start_without_a_token_is_scored_with_the_prompt() -> None:
    forward = FixedForward(llama(), None, lambda _: None)
    tree = PrefixTree(constraint_of([[5, 6, 1]]))
    asked = PromptTree([3, 4, 5], tree)
    (node,) = tree.choose([tree.start], 1)
    assert node.token == NO_TOKEN
    forward.score([WavePart(asked, 3, [node])])
    expected = PromptTree([3, 4, 5], PrefixTree(constraint_of([[5, 6, 1]])))
    TreeForward(llama()).score([WavePart(expected, 3, [node])])
    found = asked.tree.scored([0]).scores
    assert found == pytest.approx(expected.tree.scored([0]).scores, abs=1e-5)
