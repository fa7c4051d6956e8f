"""Many searches over one model: they go on in lockstep and share their forward passes.

One forward pass scores what all searches wait for, each with its own look-ahead. The results are
those of one search at a time. If memory runs out, budget and width are halved once, with a note. A
time limit ends a question with an error: nothing is answered from half a search. Ctrl-C leaves an
engine that can be used again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from kgqa.deadline import deadline
from kgqa.decoding.fixed_shapes import FixedForward, tree_forward
from kgqa.decoding.forward import (
    DEFAULT_BUDGET,
    DEFAULT_WIDEST,
    PlainForward,
    PromptTree,
    WavePart,
)
from kgqa.decoding.search import Demand, ForwardPassesSpentError, Search, SearchResult
from kgqa.decoding.speculative_tree import PrefixTree, WaveNode
from kgqa.decoding.widths import part_of
from kgqa.errors import KgqaError, ModelError, TimeLimitError, UsageError, is_out_of_memory
from kgqa.progress import Progress, Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from transformers import PreTrainedModel

    from kgqa.decoding.scores import ScoreRule
    from kgqa.trie.constraint import Constraint


# Tokens of a question's own when several share a forward pass, whatever the budget is.
_SHARE = {"cpu": 12}
_SHARE_ELSEWHERE = 32
# Questions from which on two passes overlap, each of a half of them.
_OVERLAPPING = 4
# Tokens of a pass at most, between two looks at the time: a name may have thousands.
_MOST = {"cpu": 1_024}
_MOST_ELSEWHERE = 16_384


@dataclass(frozen=True, slots=True)
class DecodingPlan:
    """How to run a model: as token trees or as whole prefixes, and how wide a forward pass is.

    ``why``: the reason for the choice. ``limit``: tokens of prompt and path up to which tree passes
    are exact, None: any. ``budget``: tokens of look-ahead in a pass. ``milliseconds`` by width.
    Raises UsageError.
    """

    way: Literal["tree", "plain"] = "tree"
    why: str = "set by the caller"
    limit: int | None = None
    budget: int = DEFAULT_BUDGET
    milliseconds: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise UsageError(
                f"The `budget` of a forward pass must be at least 1 token, not {self.budget}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingRequest:
    """One search: its prompt's token ids, its constraint and its scoring rule.

    ``time_limit``: seconds after the search starts. ``stop`` raises when the caller has gone away.
    ``max_forward_passes``: after these an ``exact`` search ends with the paths found so far.
    """

    prompt: Sequence[int]
    constraint: Constraint
    search: Search
    rule: ScoreRule = "vocabulary"
    time_limit: float | None = None
    stop: Callable[[], None] | None = None
    max_forward_passes: int | None = None
    coverage: bool = False


@dataclass(frozen=True, slots=True)
class DecodingOutcome:
    """The result of a request, or the error that ended it.

    ``seconds``: its part of the forward passes' time, by tokens. ``coverage``: if requested, for
    each token of each hypothesis the log of the probability that the model gave to the allowed
    tokens.
    """

    result: SearchResult | None
    error: KgqaError | None
    forward_passes: int
    seconds: float
    coverage: tuple[tuple[float, ...], ...] = ()

    def found(self) -> SearchResult:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


class Engine:
    """Runs up to ``together`` searches of one model in lockstep, in one thread.

    ``clock`` returns seconds. ``fixed``: whether passes have fixed shapes
    (:mod:`kgqa.decoding.fixed_shapes`), None: on CUDA.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        plan: DecodingPlan | None = None,
        *,
        together: int = 1,
        progress: Progress | None = None,
        clock: Callable[[], float] = time.monotonic,
        fixed: bool | None = None,
    ) -> None:
        if together < 1:
            raise UsageError(f"At least 1 question must be answered at a time, not {together}.")
        self.plan = plan or DecodingPlan()
        self.together = together
        self.budget = self.plan.budget
        self.forward_passes = 0
        self._progress = progress or Silent()
        self._clock = clock
        self._tree = tree_forward(model, fixed=fixed, note=self._progress.note)
        # elsewhere a pass of many questions is wider than those that were measured
        self._by_time = model.device.type == "cuda" and bool(self.plan.milliseconds)
        self._least = _SHARE.get(model.device.type, _SHARE_ELSEWHERE)
        self._most = max(_MOST.get(model.device.type, _MOST_ELSEWHERE), self.budget)
        # a GPU runs a pass while the host prepares that of other questions
        self._queues = isinstance(self._tree, FixedForward)
        self._plain = PlainForward(model)
        self._widest: int | None = None  # tokens of a forward pass, once memory has run out
        self._attempted = 0  # tokens of the forward pass that is tried
        self._running = False

    def decode(self, request: DecodingRequest) -> DecodingOutcome:
        """Run one search; the outcome holds its result or its error."""
        return next(outcome for _, outcome in self.run([request]))

    def run(self, requests: Iterable[DecodingRequest]) -> Iterator[tuple[int, DecodingOutcome]]:
        """Run all searches; yield the request's number and outcome as each search ends.

        At most ``together`` run at a time. An error of one search is in its outcome. Raises
        UsageError if the engine is already running.
        """
        if self._running:
            raise UsageError("The engine is running searches already.")
        self._running = True
        live: list[_ActiveSearch] = []
        try:
            waiting = enumerate(requests)
            flight: _Flight | None = None
            while True:
                while len(live) < self.together and (taken := next(waiting, None)) is not None:
                    try:
                        free = self.plan.way == "tree" and self.plan.limit is None
                        live.append(_ActiveSearch(*taken, self._clock, forced_free=free))
                    except KgqaError as error:
                        taken[1].search.close()
                        yield taken[0], DecodingOutcome(None, error, 0, 0.0)
                if not live:
                    return
                away = [] if flight is None else [search for search, _ in flight.parts]
                ready = [search for search in live if search not in away]
                for search in self._ended_ones(ready):
                    live.remove(search)
                    ready.remove(search)
                    yield search.number, search.outcome()
                begun = self._round(self._group(ready, away)) if ready else None
                if flight is not None:
                    self._land(flight)
                flight = begun
                if flight is not None and not self._overlaps(live):
                    self._land(flight)
                    flight = None
        finally:
            for search in live:
                search.request.search.close()
            self._tree.clear()
            self._running = False

    def _ended_ones(self, ready: Sequence[_ActiveSearch]) -> list[_ActiveSearch]:
        """Advance the searches that are ``ready``; close and return those that have ended."""
        now, ended = self._clock(), []
        for search in ready:
            search.advance()
            if not search.ended:
                try:
                    search.check_deadline(now)
                except KgqaError as error:
                    search.fail(error)
            if search.ended:
                search.request.search.close()
                self._tree.forget(search.asked)
                ended.append(search)
        return ended

    def _overlaps(self, live: Sequence[_ActiveSearch]) -> bool:
        """Return whether a pass of some of ``live`` is run while others prepare the next one."""
        return self._queues and len(live) >= _OVERLAPPING

    def _group(
        self, ready: list[_ActiveSearch], away: Sequence[_ActiveSearch]
    ) -> list[_ActiveSearch]:
        """Return which of the ``ready`` searches share the next pass.

        A half of all, where passes overlap and none is under way: the other half is next.
        """
        if away or not self._overlaps(ready):
            return ready
        return ready[: (len(ready) + 1) // 2]

    def _round(self, live: list[_ActiveSearch]) -> _Flight | None:
        """Begin one forward pass for the ``live`` searches; return it, None if it has ended.

        If memory runs out, once more at half width. If memory runs out again, all of them fail.
        """
        # a plain pass is one question's alone: its rows begin with the same prompt
        plain = next((search for search in live if self._plain_states(search)), None)
        while True:
            self._attempted = 0
            try:
                if plain is not None:
                    self._plain_forward(plain)
                elif parts := self._parts(live):
                    return self._begin(parts)
            except Exception as error:
                if not _out_of_memory(error):
                    raise
                fault = self._halve(error)
                if fault is None:
                    continue
                for search in live:
                    search.fail(fault)
            return None

    def _halve(self, error: Exception) -> ModelError | None:
        """Halve budget and width after an out-of-memory error.

        Return None to try again, or the error of all searches if they were halved before.
        """
        self._tree.release()
        # what failed is still held in fragments; without this the smaller pass may fail, too
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if self._widest is not None:
            fault = ModelError(
                "Memory ran out again after the budget of a forward pass was halved.",
                "Use fewer paths (`k`), a smaller or quantized model, or another `device`.",
            )
            fault.__cause__ = error
            return fault
        self.budget = max(1, self.budget // 2)
        self._widest = max(1, self._attempted // 2)
        self._progress.note(
            f"Memory ran out in a forward pass of {self._attempted} tokens: going on with at "
            f"most {self._widest}, look-ahead up to {self.budget}."
        )
        return None

    def _plain_states(self, search: _ActiveSearch) -> list[int]:
        """Return the demanded, unscored states that a tree pass cannot score exactly."""
        tree, limit = search.asked.tree, self.plan.limit
        missing = tree.missing(search.demanded)
        if self.plan.way == "plain":
            return missing
        if limit is None:
            return []
        prompt = len(search.asked.prompt)
        return [state for state in missing if prompt + tree.node(state).depth > limit]

    def _plain_forward(self, search: _ActiveSearch) -> None:
        """Score the next states of ``search`` that need it by one pass over whole prefixes.

        If that raises a KgqaError, the search fails.
        """
        asked, began = search.asked, time.perf_counter()
        try:
            widest = self._widest or DEFAULT_WIDEST
            runs = self._plain.next_batch(asked, self._plain_states(search), widest)
            depths = [asked.tree.node(run[-1]).depth for run in runs]
            self._attempted = len(runs) * (len(asked.prompt) + max(depths))
            self._plain.score(asked, runs)
        except KgqaError as error:
            search.fail(error)
            return
        search.count(time.perf_counter() - began)
        self.forward_passes += 1

    def _parts(self, live: Sequence[_ActiveSearch]) -> list[tuple[_ActiveSearch, WavePart]]:
        """Return each search's nodes for the next tree pass: demanded ones, then look-ahead.

        Searches for which the pass has no room are left out; one whose constraint raises an error
        fails.
        """
        share = self._share(len(live))
        room = self._widest or self._most
        limit = self.plan.limit
        parts: list[tuple[_ActiveSearch, WavePart]] = []
        for search in live:
            asked = search.asked
            if room < 1:
                break
            if search.demand is not None and not search.covers:
                self._tree.keep_only(asked, search.demand)
            if asked.uncached > room:
                parts.append((search, WavePart(asked, room, [])))
                break
            deepest = None if limit is None else limit - len(asked.prompt)
            try:
                with deadline(search.check_deadline):
                    nodes = search.uncovered or asked.tree.choose(
                        search.demanded, share, deepest=deepest, cached=asked.cached
                    )
                    # at least one: a pass that scores nothing would be asked for again for ever
                    nodes = nodes[: max(room - asked.uncached, 1)]
                    asked.tree.expand([node.state for node in nodes])
            except KgqaError as error:  # the constraint's store may fail; others go on
                search.fail(error)
                continue
            part = WavePart(asked, asked.uncached, nodes)
            parts.append((search, part))
            room -= part.tokens
        return parts

    def _share(self, questions: int) -> int:
        """Return the tokens of look-ahead of each of ``questions`` that share the next pass."""
        if questions > 1 and self._by_time:
            return min(self.budget, part_of(self.plan.milliseconds, questions))
        # with many questions each still looks ahead a little, or every level would cost a pass
        return max(self.budget // questions, min(self.budget, self._least))

    def _begin(self, parts: Sequence[tuple[_ActiveSearch, WavePart]]) -> _Flight | None:
        """Begin a tree pass that scores ``parts``; return it, None if it has ended."""
        began = time.perf_counter()
        self._attempted = sum(part.tokens for _, part in parts)
        try:
            finish = self._tree.begin([part for _, part in parts])
        except KgqaError as error:
            self._one_by_one(parts, error)
            return None
        flight = _Flight(parts, finish, began)
        if self._queues:
            return flight
        self._finish(flight)
        return None

    def _finish(self, flight: _Flight) -> None:
        """Wait for a tree pass, and store its scores."""
        try:
            flight.finish()
        except KgqaError as error:
            self._one_by_one(flight.parts, error)
            return
        seconds, total = time.perf_counter() - flight.began, flight.tokens
        for search, part in flight.parts:
            search.count(seconds * part.tokens / total)
        self.forward_passes += 1

    def _one_by_one(
        self, parts: Sequence[tuple[_ActiveSearch, WavePart]], error: KgqaError
    ) -> None:
        """Run each of ``parts`` alone to find the one that failed with ``error``, and end it."""
        if len(parts) == 1:
            parts[0][0].fail(error)
            return
        # a pass is all or nothing, so no question has learned anything of the one that failed
        for each in parts:
            if (flight := self._begin([each])) is not None:
                self._finish(flight)

    def _land(self, flight: _Flight) -> None:
        """Wait for a pass that was under way while others were prepared.

        If memory runs out, its searches begin the next one at half width, or fail.
        """
        try:
            self._finish(flight)
        except Exception as error:
            if not _out_of_memory(error):
                raise
            if (fault := self._halve(error)) is not None:
                for search, _ in flight.parts:
                    search.fail(fault)


@dataclass(frozen=True, slots=True)
class _Flight:
    """A forward pass under way: what it scores, what waits for it, and when it began."""

    parts: Sequence[tuple[_ActiveSearch, WavePart]]
    finish: Callable[[], None]
    began: float

    @property
    def tokens(self) -> int:
        """The number of tokens of the pass."""
        return sum(part.tokens for _, part in self.parts)


class _ActiveSearch:
    """A running search of the engine: its request, prefix tree, demand, time and pass counts."""

    def __init__(
        self,
        number: int,
        request: DecodingRequest,
        clock: Callable[[], float],
        *,
        forced_free: bool,
    ) -> None:
        self.number = number
        self.request = request
        self._clock = clock
        self._began = clock()
        free = forced_free and request.rule == "allowed"
        tree = PrefixTree(request.constraint, forced_free=free)
        self.covers = free and request.coverage  # tokens that only coverage asks for come last
        self.uncovered: list[WaveNode] = []
        self.asked = PromptTree(request.prompt, tree, request.rule, coverage=request.coverage)
        self.ended = False
        self.demand: Demand | None = None
        self._result: SearchResult | None = None
        self._error: KgqaError | None = None
        self._forward_passes = 0
        self._seconds = 0.0

    @property
    def demanded(self) -> tuple[int, ...]:
        """The states whose scores the search waits for."""
        return self.demand.states if self.demand is not None else ()

    def check_deadline(self, now: float | None = None) -> None:
        """Raise TimeLimitError after the request's deadline; errors of ``stop`` propagate.

        ``now``: the clock's time, None to read it.
        """
        if self.request.stop is not None:
            self.request.stop()
        limit = self.request.time_limit
        if limit is None or (self._clock() if now is None else now) - self._began <= limit:
            return
        raise TimeLimitError(
            f"The time limit of {limit:g} s passed before the search had ended.",
            "Allow more with `time_limit`, or ask for fewer paths (`k`) or `hops`.",
        )

    def advance(self) -> None:
        """Run until the search ends or demands an unknown score; do nothing if it has ended."""
        if self.ended:
            return
        with deadline(self.check_deadline):
            self._advance()

    def _advance(self) -> None:
        """Send known scores to the search until it ends or demands unknown ones."""
        tree = self.asked.tree
        try:
            if self._result is not None:
                self._end()
                return
            if self.demand is None:
                self.demand = next(self.request.search)
            while not tree.missing(self.demand.states):
                self.demand = self.request.search.send(tree.scored(self.demand.states))
            # thrown, not closed: an exact search then proves of its list what it can
            most = self.request.max_forward_passes
            if most is not None and self._forward_passes >= most:
                said = f"The search cannot end within {most} forward passes with what it has."
                self.request.search.throw(ForwardPassesSpentError(said, "Only exact search can."))
        except StopIteration as end:
            self._result = end.value
            self._end()
        except KgqaError as error:
            self.fail(error)

    def _end(self) -> None:
        """Mark the search as ended, unless the coverage of the found paths must still be scored."""
        assert self._result is not None
        states = [hypothesis.state for hypothesis in self._result.hypotheses] if self.covers else []
        self.uncovered = self.asked.tree.uncovered(states)
        self.ended = not self.uncovered

    def fail(self, error: KgqaError) -> None:
        """End the search with ``error``."""
        self._error, self.ended = error, True

    def count(self, seconds: float) -> None:
        """Count one forward pass that took ``seconds``."""
        self._forward_passes += 1
        self._seconds += seconds

    def outcome(self) -> DecodingOutcome:
        """Return the outcome: result or error, costs, and coverage if it was requested."""
        covered: tuple[tuple[float, ...], ...] = ()
        if self.request.coverage and self._result is not None:
            hypotheses = self._result.hypotheses
            covered = tuple(self.asked.tree.coverage(hypothesis.state) for hypothesis in hypotheses)
        cost = (self._forward_passes, self._seconds)
        return DecodingOutcome(self._result, self._error, *cost, covered)


def _out_of_memory(error: Exception) -> bool:
    """Return whether ``error`` means that the device or the host has no memory left."""
    return isinstance(error, torch.OutOfMemoryError) or is_out_of_memory(error)
