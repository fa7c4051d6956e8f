"""The scored prefixes of one search, and which prefixes the next forward pass should score.

A wave is chosen best first: demands, then likely later ones, by the sum of log-probabilities so far
and an estimate below: a forced token costs little, a choice among n costs log n.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kgqa.decoding.search import Scored
from kgqa.paths.walk import PathTable, empty_paths
from kgqa.trie.constraint import Constraint, Expansion

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from numpy.typing import NDArray

    _Ints: TypeAlias = NDArray[np.int64]
    _Floats: TypeAlias = NDArray[np.float64]

NO_TOKEN = -1
# What a token without an alternative is taken to cost, and how far below the best candidate another
# is still taken in the same round: a constraint composed from a store is asked once a round.
_FORCED = 0.05
_MARGIN = 1.0
_ROUNDS = 96


@dataclass(frozen=True, slots=True)
class WaveNode:
    """A state to score: its last token (``NO_TOKEN`` for the start), parent state and depth."""

    state: int
    token: int
    parent: int
    depth: int


class PrefixTree:
    """The prefixes of a constraint that one search has reached, and their scores; for one thread.

    ``forced_free``: a token without an alternative is known to score 0 (by the rule "allowed"), so
    that it is run only if something below it must be.
    """

    def __init__(self, constraint: Constraint, *, forced_free: bool = False) -> None:
        self._constraint = constraint
        self.forced_free = forced_free
        # the constraint numbers states, so that a prefix is known by one integer everywhere
        start = constraint.start()
        self.start = start
        self._moves: dict[int, tuple[_Ints, _Ints]] = {}  # tokens, states
        self._scores: dict[int, _Floats] = {}
        self._covered: dict[int, float] = {}  # the log-coverage of states, if it was learned
        self._parent: dict[int, int] = {}  # of every state that a known move leads to
        self._nodes = {start: WaveNode(start, NO_TOKEN, start, 0)}
        self._totals = {start: 0.0}  # exact, of states below those that have been scored

    def missing(self, states: Sequence[int]) -> list[int]:
        """Return the distinct ``states`` whose moves have no score yet, in order."""
        if self.forced_free:
            self._expand(states)
        return [state for state in dict.fromkeys(states) if state not in self._scores]

    def scored(self, states: Sequence[int]) -> Scored:
        """Return the moves and scores of ``states``, all of which must have been scored."""
        moves = self.expansion(states)
        scores = [self._scores[state] for state in states]
        return Scored(moves, np.concatenate(scores) if scores else np.empty(0))

    def node(self, state: int) -> WaveNode:
        """Return the node of a state that is the start or was reached by an expanded move."""
        unknown = []
        while state not in self._nodes:  # a name may have more tokens than calls may be nested
            unknown.append(state)
            state = self._parent[state]
        wave_node = self._nodes[state]
        for state in reversed(unknown):
            tokens, states = self._moves[wave_node.state]
            token = int(tokens[np.flatnonzero(states == state)[0]])
            wave_node = self._nodes[state] = WaveNode(
                state, token, wave_node.state, wave_node.depth + 1
            )
        return wave_node

    def prefix(self, state: int) -> list[int]:
        """Return the tokens from the start to ``state``."""
        tokens: list[int] = []
        while state != self.start:
            node = self.node(state)
            tokens.append(node.token)
            state = node.parent
        return tokens[::-1]

    def expansion(self, states: Sequence[int]) -> Expansion:
        """Return the moves out of ``states``; one call to the constraint reads the unknown ones."""
        self._expand(states)
        moves = [self._moves[state] for state in states]
        if not moves:
            return Expansion(*np.empty((3, 0), np.int64))
        row = np.repeat(np.arange(len(moves)), [len(tokens) for tokens, _ in moves])
        tokens, below = zip(*moves, strict=True)
        return Expansion(row, np.concatenate(tokens), np.concatenate(below))

    def coverage(self, state: int) -> tuple[float, ...]:
        """Return the log-coverage at each token from the start to ``state``, () if unknown."""
        probabilities: list[float] = []
        while state != self.start:
            state = self.node(state).parent
            if state not in self._covered:
                return ()
            probabilities.append(self._covered[state])
        return tuple(probabilities[::-1])

    def uncovered(self, ends: Iterable[int]) -> list[WaveNode]:
        """Return the nodes above ``ends`` whose coverage was not learned, parents first."""
        nodes: dict[int, WaveNode] = {}
        for state in ends:
            above: list[WaveNode] = []
            while state != self.start:
                state = self.node(state).parent
                if state in self._covered or state in nodes:
                    break
                above.append(self.node(state))
            nodes.update((node.state, node) for node in reversed(above))
        return list(nodes.values())

    def learn(self, states: Sequence[int], scores: _Floats, covered: _Floats | None = None) -> None:
        """Store the scores of the moves out of ``states`` (parents first), in expansion order.

        ``covered``: the log of the total probability of each state's allowed moves.
        """
        if covered is not None:
            self._covered.update(zip(states, covered.tolist(), strict=True))
        done = 0
        for state in states:
            tokens, _ = self._moves[state]
            self._scores[state] = scores[done : done + len(tokens)]
            done += len(tokens)

    def choose(
        self,
        demanded: Sequence[int],
        budget: int,
        *,
        deepest: int | None = None,
        cached: Container[int] = (),
    ) -> list[WaveNode]:
        """Return the nodes to run next: the demanded ones, then look-ahead up to ``budget`` tokens.

        Parents come first. Where forced tokens are free, uncached ancestors of a node precede it.
        ``deepest``: no look-ahead below this depth.
        """
        wave: dict[int, WaveNode] = {}

        def add(node: WaveNode) -> None:
            """Add the node to the wave; its uncached ancestors by forced tokens come first."""
            above = [node]
            while self.forced_free and above[-1].token != NO_TOKEN:
                up = self.node(above[-1].parent)
                if up.state in cached or up.state in wave:
                    break
                above.append(up)
            wave.update((wave_node.state, wave_node) for wave_node in reversed(above))

        wanted = [self.node(state) for state in self.missing(demanded)]
        for node in wanted:
            add(node)
        if len(wave) >= budget:
            return list(wave.values())
        frontier = _Frontier(deepest)
        self._push_known(frontier, demanded, budget)
        edge = [(self._total(node.state), node) for node in wanted]
        for _ in range(_ROUNDS):
            self._expand([node.state for _, node in edge])
            for priority, node in edge:
                tokens, below = self._moves[node.state]
                cost = math.log(len(tokens)) if len(tokens) > 1 else _FORCED
                some = slice(budget - len(wave))
                pairs = zip(tokens[some].tolist(), below[some].tolist(), strict=True)
                frontier.push(node, ((priority - cost, token, state) for token, state in pairs))
            # a quarter of the room at a time, so that what is found below can still be preferred
            taken = frontier.take(max(2, (budget - len(wave)) // 4))
            if not taken:
                break
            ends = self._constraint.is_end([node.state for _, node in taken])
            edge = [batch for batch, end in zip(taken, ends.tolist(), strict=True) if not end]
            edge = edge[: budget - len(wave)]
            for _, node in edge:
                self._nodes[node.state] = node
                add(node)
            if len(wave) >= budget:
                break
        return list(wave.values())

    def forced_run(self, state: int, length: int) -> list[int]:
        """Return up to ``length`` states that follow ``state`` while only one move is allowed.

        The run stops before an end state.
        """
        run: list[int] = []
        while len(run) < length:
            self._expand([state])
            _, below = self._moves[state]
            if len(below) != 1 or self._constraint.is_end(below.tolist())[0]:
                break
            state = int(below[0])
            run.append(state)
        return run

    def _expand(self, states: Sequence[int]) -> None:
        """Read the moves out of new ``states`` from the constraint."""
        new = [state for state in dict.fromkeys(states) if state not in self._moves]
        if not new:
            return
        expansion = self._constraint.expand(new)
        bounds = np.searchsorted(expansion.row, np.arange(len(new) + 1)).tolist()
        for number, state in enumerate(new):
            mine = slice(bounds[number], bounds[number + 1])
            below = expansion.state[mine]
            self._moves[state] = (expansion.token[mine], below)
            self._parent.update(dict.fromkeys(below.tolist(), state))
            # the start is always run: with it the prompt is read into the cache
            if self.forced_free and len(below) == 1 and state != self.start:
                self._scores[state] = np.zeros(1)

    def _total(self, state: int) -> float:
        """Return the sum of the known scores from the start to ``state``."""
        above: list[WaveNode] = []
        # totals are kept at every node: sums from the root would be quadratic in a path's length
        while state not in self._totals:
            above.append(self.node(state))
            state = above[-1].parent
        total = self._totals[state]
        for node in reversed(above):
            move = np.flatnonzero(self._moves[node.parent][1] == node.state)[0]
            total += float(self._scores[node.parent][move])
            self._totals[node.state] = total
        return total

    def _push_known(self, frontier: _Frontier, demanded: Sequence[int], budget: int) -> None:
        """Push the unscored children of scored states at or below ``demanded`` to the frontier.

        Of each state, at most the ``budget`` most probable children.
        """
        reached = [state for state in demanded if state in self._scores]
        for state in reached:  # grows while it is read
            tokens, below = self._moves[state]
            totals = self._total(state) + self._scores[state]
            best = np.argsort(-totals, kind="stable")[:budget]
            new = []
            for move in best.tolist():
                child = int(below[move])
                if child in self._scores:
                    reached.append(child)
                else:
                    new.append((float(totals[move]), int(tokens[move]), child))
            frontier.push(self.node(state), new)


class _Frontier:
    """A priority queue of nodes for look-ahead, the most probable first."""

    def __init__(self, deepest: int | None) -> None:
        self._heap: list[tuple[float, int, int, int, WaveNode]] = []
        self._pushed = 0
        self._deepest = deepest

    def push(self, parent: WaveNode, moves: Iterable[tuple[float, int, int]]) -> None:
        """Add the nodes that ``moves`` (priority, token, state) lead to; none below ``deepest``."""
        if self._deepest is not None and parent.depth >= self._deepest:
            return
        for priority, token, state in moves:
            self._pushed += 1
            heapq.heappush(self._heap, (-priority, self._pushed, token, state, parent))

    def take(self, most: int) -> list[tuple[float, WaveNode]]:
        """Remove and return up to ``most`` nodes of priorities within ``_MARGIN`` of the first."""
        taken: list[tuple[float, WaveNode]] = []
        while self._heap and len(taken) < most:
            if taken and -self._heap[0][0] < taken[0][0] - _MARGIN:
                break
            cost, _, token, state, parent = heapq.heappop(self._heap)
            taken.append((-cost, WaveNode(state, token, parent.state, parent.depth + 1)))
        return taken


class NoConstraint:
    """An empty constraint, for a prefix tree whose nodes are given directly."""

    paths = 0

    def start(self) -> int:
        """Return the only state, the start."""
        return 0

    def expand(self, states: Sequence[int]) -> Expansion:
        """Return no moves."""
        return Expansion(*np.empty((3, 0), np.int64))

    def is_end(self, states: Sequence[int]) -> NDArray[np.bool_]:
        """Return that no state is an end."""
        return np.zeros(len(states), bool)

    def ground(self, state: int) -> PathTable:
        """Return an empty table of paths."""
        return empty_paths(1)
