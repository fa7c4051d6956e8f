"""A sample of the paths out of each topic entity, if all of them are more than is wanted.

``breadth``: the first by length, then hops; ``depth``: the first depth-first; ``random``: distinct
random walks, drawn without replacement. A walk draws its length evenly from 1 to L, then hops
evenly, and ends sooner if there is none. Hops are ordered by first step, second step, tail,
mediator. A sample depends on the KG, the rules, the sample and the entity alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from kgqa.errors import UsageError
from kgqa.graph.model import Kind
from kgqa.paths.walk import (
    FIRST,
    MEDIATOR,
    SECOND,
    TAIL,
    PathTable,
    admissible,
    empty_paths,
    hops_out_of,
    ranges,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import WalkRules

    Floats = NDArray[np.float64]
    Hashes = NDArray[np.uint64]

Walk: TypeAlias = Literal["breadth", "depth", "random"]

WALKS: tuple[Walk, ...] = get_args(Walk)
_BY_HOP = (FIRST, SECOND, TAIL, MEDIATOR)
_JOINED = 1 << 18  # hops that are joined to prefixes at once; bounds the memory near hubs
_BLOCK = 4  # prefixes of an entity that are left first; each block after it has four times as many
_GROWTH = 4
_STOP = np.uint64(0x5354_4F50)  # different from every hop
_SEEDS = 1 << 63


@dataclass(frozen=True, slots=True)
class Sample:
    """At most ``size`` paths of each entity; ``seed``: of random walks. Raises UsageError."""

    size: int
    walk: Walk = "breadth"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError(f"A sample has at least one path of an entity, not {self.size}.")
        if self.walk not in WALKS:
            raise UsageError(
                f"Paths cannot be sampled by walk '{self.walk}'.",
                f"It is one of {', '.join(WALKS)}.",
            )
        if not 0 <= self.seed < _SEEDS:
            raise UsageError(f"A seed is from 0 to 2^63 - 1, not {self.seed}.")
        if self.seed and self.walk != "random":
            raise UsageError(
                f"A seed changes nothing of a {self.walk}-first sample.",
                "It is for random walks: set `walk` to random.",
            )

    def __str__(self) -> str:
        """Return the sample in words, as in "at most 100 paths of an entity, by …"."""
        how = f"random walks (seed {self.seed})" if self.walk == "random" else f"{self.walk} first"
        return f"at most {self.size:,} paths of an entity, by {how}"


def sample_walk(store: GraphStore, topics: IntArray, rules: WalkRules, sample: Sample) -> PathTable:
    """Return a sample of the paths out of each of distinct ``topics``, depth-first."""
    choose = _random_walks if sample.walk == "random" else _in_order
    if not len(topics):
        return empty_paths(rules.hops)
    walks = _concat(choose(_Steps(store, topics, rules), sample))
    # what a shorter path lacks is -1 and so sorts before every hop
    columns = [walks.taken[:, level, part] for level in range(rules.hops) for part in _BY_HOP]
    order = np.lexsort([*reversed(columns), walks.slot])
    order = order[_rank(walks.slot[order]) < sample.size]
    return PathTable(topics[walks.slot[order]], walks.length[order], walks.taken[order])


@dataclass(frozen=True, slots=True)
class _Walks:
    slot: IntArray
    length: IntArray
    taken: IntArray  # [n, L, 4]
    onward: BoolArray  # whether the walk may go on

    def __len__(self) -> int:
        return len(self.slot)

    def take(self, rows: IntArray | BoolArray) -> _Walks:
        """Return some of the walks."""
        return _Walks(self.slot[rows], self.length[rows], self.taken[rows], self.onward[rows])


def _concat(parts: Sequence[_Walks]) -> _Walks:
    columns = ("slot", "length", "taken", "onward")
    return _Walks(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


def _rank(slot: IntArray) -> IntArray:
    rank: IntArray = np.arange(len(slot)) - np.searchsorted(slot, slot)
    return rank


class _Steps:
    """The hops out of walks that start at some topics, in bounded batches."""

    def __init__(self, store: GraphStore, topics: IntArray, rules: WalkRules) -> None:
        self.store = store
        self.topics = topics
        self.rules = rules

    def roots(self) -> _Walks:
        """Return the walk without a hop of every topic."""
        count = len(self.topics)
        taken = np.full((count, self.rules.hops, 4), -1, np.int64)
        slot = np.arange(count, dtype=np.int64)
        return _Walks(slot, np.zeros(count, np.int64), taken, np.ones(count, np.bool_))

    def counts(self, walks: _Walks) -> IntArray:
        """Return the number of walks of each slot."""
        counts: IntArray = np.bincount(walks.slot, minlength=len(self.topics)).astype(np.int64)
        return counts

    def out_of(
        self, walks: _Walks, depth: int, wanted: Callable[[IntArray, IntArray], BoolArray]
    ) -> Iterator[tuple[IntArray, IntArray, _Walks]]:
        """Yield some of ``walks`` with all that go on from them by one hop, until none is wanted.

        ``walks`` have ``depth`` hops and stand by slot. ``wanted`` gets slots and rows and says
        which are still wanted. Yields (the extended rows; of each new walk its row; the new walks
        by hops).
        """
        ends = walks.taken[:, depth - 1, TAIL] if depth else self.topics[walks.slot]
        starts = np.searchsorted(walks.slot, np.arange(len(self.topics) + 1)).astype(np.int64)
        at, block = starts[:-1].copy(), _BLOCK
        while (at < starts[1:]).any():
            sizes = np.minimum(starts[1:] - at, block)
            rows = ranges(at, sizes)
            at += sizes
            # growing blocks: where few prefixes suffice, no hops out of the others are read
            block *= _GROWTH
            rows = rows[wanted(walks.slot[rows], rows) & walks.onward[rows]]
            if len(rows):
                yield from self._block(walks, depth, ends, rows, wanted)

    def _block(
        self,
        walks: _Walks,
        depth: int,
        ends: IntArray,
        rows: IntArray,
        wanted: Callable[[IntArray, IntArray], BoolArray],
    ) -> Iterator[tuple[IntArray, IntArray, _Walks]]:
        unique, position = np.unique(ends[rows], return_inverse=True)
        hops = hops_out_of(self.store, unique, self.rules)
        offsets = hops.offsets(len(unique))
        order = np.lexsort([*(hops.hop[:, part] for part in reversed(_BY_HOP)), hops.row])
        starts, counts = offsets[:-1][position], np.diff(offsets)[position]
        while len(rows):
            fits = max(1, int(np.searchsorted(np.cumsum(counts), _JOINED, side="right")))
            pick = order[ranges(starts[:fits], counts[:fits])]
            source = np.repeat(rows[:fits], counts[:fits])
            slot, taken, added = walks.slot[source], walks.taken[source], hops.hop[pick]
            good = admissible(self.topics[slot], taken, depth, added)
            taken = taken[good]
            taken[:, depth] = added[good]
            length = np.full(len(taken), depth + 1, np.int64)
            onward = hops.kind[pick][good] != Kind.VALUE
            yield rows[:fits], source[good], _Walks(slot[good], length, taken, onward)
            left = fits + np.flatnonzero(wanted(walks.slot[rows[fits:]], rows[fits:]))
            rows, starts, counts = rows[left], starts[left], counts[left]


def _in_order(steps: _Steps, sample: Sample) -> list[_Walks]:
    """Return the first walks of each length, by hops: at least those that a sample needs.

    Breadth first, shorter walks leave less room for longer ones. Depth first, a walk comes after
    those that it goes on from, so of each length none but the first N can be among the first N.
    """
    level = steps.roots()
    left = np.full(len(level), sample.size, np.int64)
    levels: list[_Walks] = []
    for depth in range(steps.rules.hops):
        parts = [level.take(np.zeros(0, np.int64))]
        if sample.walk == "depth":
            left[:] = sample.size
        for _, _, longer in steps.out_of(level, depth, partial(_any_left, left)):
            kept = longer.take(_rank(longer.slot) < left[longer.slot])
            left -= steps.counts(kept)
            parts.append(kept)
        level = _concat(parts)
        level = level.take(np.argsort(level.slot, kind="stable"))
        levels.append(level)
    return levels


def _any_left(left: IntArray, slot: IntArray, _: IntArray) -> BoolArray:
    return left[slot] > 0


# Random walks, drawn without being put back: the best N leaves of a tree by log-probability plus
# Gumbel noise are N such draws. A node's value is that of its best leaf, so the tree is gone down
# with no more than N nodes of a level (Kool et al., arXiv 1903.06059). The noise comes from hashes
# of what the walks took, so that it is the same in whatever order they are met.


@dataclass(frozen=True, slots=True)
class _Draws:
    """Walks with the hash of what they took, their log-probability, and that with its noise."""

    walks: _Walks
    hashed: Hashes
    chance: Floats
    value: Floats

    def take(self, rows: IntArray | BoolArray) -> _Draws:
        """Return some of the draws."""
        return _Draws(self.walks.take(rows), self.hashed[rows], self.chance[rows], self.value[rows])

    def joined(self, more: _Draws) -> _Draws:
        """Return these and ``more``."""
        columns = ("hashed", "chance", "value")
        arrays = (
            np.concatenate([getattr(self, column), getattr(more, column)]) for column in columns
        )
        return _Draws(_concat([self.walks, more.walks]), *arrays)

    def best(self, size: int) -> _Draws:
        """Return the ``size`` best of each slot, by slot, best first."""
        # the hash settles ties, so that a sample does not depend on the order of the store
        order = np.lexsort([self.hashed, -self.value, self.walks.slot])
        return self.take(order[_rank(self.walks.slot[order]) < size])


def _random_walks(steps: _Steps, sample: Sample) -> list[_Walks]:
    roots = steps.roots()
    seeds = [_hash_of(entity, sample.seed) for entity in steps.store.entities(steps.topics).ids]
    none = np.zeros(len(roots), np.float64)
    level = _Draws(roots, np.array(seeds, np.uint64), none, none)
    pool = level.take(np.zeros(0, np.int64))
    for depth in range(steps.rules.hops):
        # what a walk has to beat: the last of its slot's, if there are as many as are wanted
        worst = np.full(len(roots), -np.inf)
        beats = partial(_beats, level.value, worst)
        for rows, source, longer in steps.out_of(level.walks, depth, beats):
            new = _draw(level, rows, source, longer, depth, steps.rules.hops)
            pool = pool.joined(new).best(sample.size)
            last = np.flatnonzero(_rank(pool.walks.slot) == sample.size - 1)
            worst[pool.walks.slot[last]] = pool.value[last]
        level = pool.take(pool.walks.onward)
        pool = pool.take(~pool.walks.onward)
    return [pool.walks, level.walks]


def _beats(value: Floats, worst: Floats, slot: IntArray, rows: IntArray) -> BoolArray:
    return value[rows] >= worst[slot]


def _draw(
    level: _Draws, rows: IntArray, source: IntArray, longer: _Walks, depth: int, hops: int
) -> _Draws:
    parent = np.searchsorted(rows, source)
    counts = np.bincount(parent, minlength=len(rows))
    goes_on = np.full(len(rows), 0.0)  # log-probabilities
    ends = np.empty(0, np.float64)
    stops = rows[:0]
    if depth:
        # a length drawn evenly from 1 to L is this one with 1 / (L - depth + 1), if not less
        stops = rows
        ends = np.where(counts > 0, -np.log(hops - depth + 1), 0.0)
        goes_on += np.log((hops - depth) / (hops - depth + 1))
    goes_on -= np.log(np.maximum(counts, 1))
    group = np.concatenate([np.arange(len(stops)), parent])
    at = rows[group]
    ended = level.walks.take(stops)
    ended = _Walks(ended.slot, ended.length, ended.taken, np.zeros(len(ended), np.bool_))
    hashed = level.hashed[source]
    for part in range(4):
        hashed = _mixed(hashed ^ longer.taken[:, depth, part].astype(np.uint64))
    hashed = np.concatenate([_mixed(level.hashed[stops] ^ _STOP), hashed])
    chance = level.chance[at] + np.concatenate([ends, goes_on[parent]])
    evenly = ((hashed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    noisy: Floats = chance - np.log(-np.log(evenly))
    best = np.full(len(rows), -np.inf)
    np.maximum.at(best, group, noisy)
    value = _under(level.value[at], noisy, best[group])
    return _Draws(_concat([ended, longer]), hashed, chance, value)


def _under(bound: Floats, noisy: Floats, best: Floats) -> Floats:
    """Return noisy values given that the largest of each group, ``best``, is its ``bound``."""
    below = noisy - best  # at most 0
    with np.errstate(divide="ignore"):
        gap = np.where(below > -0.6931, np.log(-np.expm1(below)), np.log1p(-np.exp(below)))
    shift = bound - noisy + gap
    value: Floats = bound - np.maximum(shift, 0.0) - np.log1p(np.exp(-np.abs(shift)))
    return value


def _hash_of(entity_id: str, seed: int) -> int:
    content = f"{seed}\0{entity_id}".encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def _mixed(numbers: Hashes) -> Hashes:
    """Return numbers whose bits all depend on all bits of the given ones (SplitMix64)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
