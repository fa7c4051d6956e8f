"""The scored prefixes of one search, and which prefixes the next forward pass should score.

A wave is chosen best first: demands, then likely later ones, by the sum of log-probabilities so far
and an estimate below: a forced token costs little, a choice among n costs log n.
"""

from __future__ import annotations

import heapq
import math
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from kgqa.decoding.search import Scored
from kgqa.paths.walk import PathTable, empty_paths
from kgqa.trie.constraint import Constraint, Expansion, ListedConstraint

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from numpy.typing import NDArray

    _Floats: TypeAlias = NDArray[np.float64]

NO_TOKEN = -1
# What a token without an alternative is taken to cost, and how far below the best candidate another
# is still taken in the same round: a constraint composed from a store is asked once a round.
_FORCED = 0.05
_MARGIN = 1.0
_ROUNDS = 96
# How far below the best candidate a forced run is still followed without a look at the others.
_RUN = 0.2


class WaveNode(NamedTuple):
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
        self._listed = constraint if isinstance(constraint, ListedConstraint) else None
        self.forced_free = forced_free
        # the constraint numbers states, so that a prefix is known by one integer everywhere
        start = constraint.start()
        self.start = start
        # lists, not arrays: nearly all states have one move, on which a call of numpy is wasted
        self._moves: dict[int, tuple[list[int], list[int]]] = {}  # tokens, states
        self._scores: dict[int, list[float]] = {}
        self._ranked: dict[int, list[tuple[float, int, int]]] = {}  # the best first
        self._covered: dict[int, float] = {}  # the log-coverage of states, if it was learned
        self._parent: dict[int, int] = {}  # of every state that a known move leads to
        self._nodes = {start: WaveNode(start, NO_TOKEN, start, 0)}
        self._totals = {start: 0.0}  # exact, of states below those that have been scored

    def missing(self, states: Sequence[int]) -> list[int]:
        """Return the distinct ``states`` whose moves have no score yet, in order."""
        if self.forced_free:
            self.expand(states)
        return [state for state in dict.fromkeys(states) if state not in self._scores]

    def scored(self, states: Sequence[int]) -> Scored:
        """Return the moves and scores of ``states``, all of which must have been scored."""
        moves = self.expansion(states)
        scores = list(chain.from_iterable([self._scores[state] for state in states]))
        return Scored(moves, np.array(scores, np.float64))

    def node(self, state: int) -> WaveNode:
        """Return the node of a state that is the start or was reached by an expanded move."""
        unknown = []
        while state not in self._nodes:  # a name may have more tokens than calls may be nested
            unknown.append(state)
            state = self._parent[state]
        wave_node = self._nodes[state]
        for state in reversed(unknown):
            tokens, states = self._moves[wave_node.state]
            token = tokens[states.index(state)]
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
        self.expand(states)
        moves = [self._moves[state] for state in states]
        if not moves:
            return Expansion(*np.empty((3, 0), np.int64))
        tokens, below = zip(*moves, strict=True)
        return Expansion(
            np.repeat(np.arange(len(moves)), list(map(len, tokens))),
            np.array(list(chain.from_iterable(tokens)), np.int64),
            np.array(list(chain.from_iterable(below)), np.int64),
        )

    def allowed(self, states: Sequence[int]) -> list[list[int]]:
        """Return the tokens of the moves out of each of ``states``."""
        self.expand(states)
        return [self._moves[state][0] for state in states]

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
        done, listed = 0, scores.tolist()
        for state in states:
            last = done + len(self._moves[state][0])
            self._scores[state] = listed[done:last]
            done = last

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
            if self.forced_free:
                above = [node]
                while above[-1].token != NO_TOKEN:
                    up = self.node(above[-1].parent)
                    if up.state in cached or up.state in wave:
                        break
                    above.append(up)
                wave.update((wave_node.state, wave_node) for wave_node in reversed(above))
            else:
                wave[node.state] = node

        wanted = [self.node(state) for state in self.missing(demanded)]
        for node in wanted:
            add(node)
        if len(wave) >= budget:
            return list(wave.values())
        frontier = _Frontier(deepest)
        self._push_known(frontier, demanded, budget)
        edge = [(self._total(node.state), node) for node in wanted]
        grow = self._grow if self._listed is not None else self._grow_by_rounds
        grow(frontier, edge, wave, add, budget)
        return list(wave.values())

    def _grow(
        self,
        frontier: _Frontier,
        edge: Sequence[tuple[float, WaveNode]],
        wave: dict[int, WaveNode],
        add: Callable[[WaveNode], None],
        budget: int,
    ) -> None:
        """Add the most probable nodes of a constraint in memory to ``wave``, one at a time."""
        self.expand([node.state for _, node in edge])
        for priority, node in edge:
            self._push_unscored(frontier, priority, node, budget)
        while len(wave) < budget and (taken := frontier.pop()) is not None:
            priority, node = taken
            # a forced run is followed without the queue while nothing else is more probable
            lead = frontier.lead()
            last = frontier.last(node.depth + budget - len(wave) - 1)
            while (moves := self._listed_moves(node.state)) is not None:
                tokens, below = moves
                self._nodes[node.state] = node
                add(node)
                if len(tokens) != 1 or priority - _FORCED < lead or node.depth >= last:
                    self._push_unscored(frontier, priority, node, budget)
                    break
                priority -= _FORCED
                node = WaveNode(below[0], tokens[0], node.state, node.depth + 1)

    def _grow_by_rounds(
        self,
        frontier: _Frontier,
        edge: list[tuple[float, WaveNode]],
        wave: dict[int, WaveNode],
        add: Callable[[WaveNode], None],
        budget: int,
    ) -> None:
        """Add the most probable nodes to ``wave``, many a round: a store is asked once a round."""
        for _ in range(_ROUNDS):
            self.expand([node.state for _, node in edge])
            for priority, node in edge:
                self._push_unscored(frontier, priority, node, budget)
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

    def _push_unscored(
        self, frontier: _Frontier, priority: float, node: WaveNode, budget: int
    ) -> None:
        """Push the children of an expanded node, at equal estimates; at most ``budget`` of them."""
        tokens, below = self._moves[node.state]
        if len(tokens) == 1:
            frontier.push(node, [(priority - _FORCED, tokens[0], below[0])])
            return
        each = priority - math.log(max(1, len(tokens)))
        pairs = zip(tokens[:budget], below[:budget], strict=True)
        frontier.push(node, [(each, token, state) for token, state in pairs])

    def forced_run(self, state: int, length: int) -> list[int]:
        """Return up to ``length`` states that follow ``state`` while only one move is allowed.

        The run stops before an end state.
        """
        run: list[int] = []
        while len(run) < length:
            self.expand([state])
            _, below = self._moves[state]
            if len(below) != 1 or self._constraint.is_end(below)[0]:
                break
            state = below[0]
            run.append(state)
        return run

    def _listed_moves(self, state: int) -> tuple[list[int], list[int]] | None:
        """Return the moves out of a state of a constraint in memory, None for an end."""
        moves = self._moves.get(state)
        if moves is None:
            assert self._listed is not None
            moves = self._listed.moves(state)
            if moves is not None:
                self._enter(state, *moves)
        return moves

    def expand(self, states: Sequence[int]) -> None:
        """Read the moves out of new ``states`` from the constraint."""
        new = [state for state in dict.fromkeys(states) if state not in self._moves]
        if not new:
            return
        if self._listed is not None:
            for state in new:
                self._enter(state, *(self._listed.moves(state) or ([], [])))
            return
        expansion = self._constraint.expand(new)
        bounds = np.searchsorted(expansion.row, np.arange(len(new) + 1)).tolist()
        tokens, below = expansion.token.tolist(), expansion.state.tolist()
        for number, state in enumerate(new):
            mine = slice(bounds[number], bounds[number + 1])
            self._enter(state, tokens[mine], below[mine])

    def _enter(self, state: int, tokens: list[int], below: list[int]) -> None:
        """Store the moves out of ``state``: their tokens, and the states they lead to."""
        self._moves[state] = tokens, below
        if len(below) == 1:
            self._parent[below[0]] = state
            # the start is always run: with it the prompt is read into the cache
            if self.forced_free and state != self.start:
                self._scores[state] = [0.0]
        else:
            self._parent.update(dict.fromkeys(below, state))

    def _total(self, state: int) -> float:
        """Return the sum of the known scores from the start to ``state``."""
        unknown: list[int] = []
        # totals are kept at every node: sums from the root would be quadratic in a path's length
        while state not in self._totals:
            unknown.append(state)
            state = self._parent[state]
        total = self._totals[state]
        for below in reversed(unknown):
            scores = self._scores[state]
            total += scores[0] if len(scores) == 1 else scores[self._moves[state][1].index(below)]
            self._totals[below] = total
            state = below
        return total

    def _best(self, state: int) -> list[tuple[float, int, int]]:
        """Return score, token and next state of the moves of a scored state, the best first."""
        ranked = self._ranked.get(state)
        if ranked is None:
            scores, (tokens, below) = self._scores[state], self._moves[state]
            order = np.argsort(-np.array(scores), kind="stable").tolist() if scores[1:] else [0]
            ranked = [(scores[move], tokens[move], below[move]) for move in order[: len(scores)]]
            self._ranked[state] = ranked
        return ranked

    def _push_known(self, frontier: _Frontier, demanded: Sequence[int], budget: int) -> None:
        """Push the unscored children of scored states at or below ``demanded`` to the frontier.

        Of each state, at most the ``budget`` most probable children.
        """
        known = self._scores
        reached = [state for state in demanded if state in known]
        for state in reached:  # grows while it is read
            below = self._moves[state][1]
            while len(below) == 1 and below[0] in known:  # a scored forced run has nothing to push
                state = below[0]
                below = self._moves[state][1]
            total = self._total(state)
            new = []
            for score, token, child in self._best(state)[:budget]:
                if child in known:
                    reached.append(child)
                else:
                    new.append((total + score, token, child))
            if new:
                frontier.push(self.node(state), new)


class _Frontier:
    """A priority queue of nodes for look-ahead, the most probable first."""

    def __init__(self, deepest: int | None) -> None:
        # an entry is the best of the siblings that are left: most are never taken
        self._heap: list[tuple[float, int, int, list[tuple[float, int, int]], WaveNode]] = []
        self._pushed = 0
        self._deepest = deepest

    def push(self, parent: WaveNode, moves: list[tuple[float, int, int]], at: int = 0) -> None:
        """Add the nodes that ``moves[at:]`` (priority, token, state; best first) lead to.

        None below ``deepest``.
        """
        if at >= len(moves) or (self._deepest is not None and parent.depth >= self._deepest):
            return
        self._pushed += 1
        heapq.heappush(self._heap, (-moves[at][0], self._pushed, at, moves, parent))

    def lead(self) -> float:
        """Return the priority above which a child is, or nearly is, the next to take."""
        return -self._heap[0][0] - _RUN if self._heap else -math.inf

    def last(self, depth: int) -> int:
        """Return the deepest level that nodes may be added at, ``depth`` at most."""
        return depth if self._deepest is None else min(depth, self._deepest)

    def pop(self) -> tuple[float, WaveNode] | None:
        """Remove and return the most probable node with its priority; None if empty."""
        if not self._heap:
            return None
        _, _, at, moves, parent = heapq.heappop(self._heap)
        self.push(parent, moves, at + 1)
        priority, token, state = moves[at]
        return priority, WaveNode(state, token, parent.state, parent.depth + 1)

    def take(self, most: int) -> list[tuple[float, WaveNode]]:
        """Remove and return up to ``most`` nodes of priorities within ``_MARGIN`` of the first."""
        taken: list[tuple[float, WaveNode]] = []
        while self._heap and len(taken) < most:
            if taken and -self._heap[0][0] < taken[0][0] - _MARGIN:
                break
            taken += filter(None, [self.pop()])
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
