"""Fit the planner's weights (``kgqa/data/weights.toml``) to lists of plans, and say what each does.

    python -m scripts.planner.fit_weights --lists FILE … [--prior N] [--folds N] [--write]

Each FILE is of :mod:`scripts.planner.proposals` or :mod:`scripts.planner.answered`. A plan's score
is linear in the weights near those that made the list, so the weights are those of a conditional
logit: the right plans of a list are to have its probability. They are drawn towards the present
ones, of which each keeps its sign, by a normal prior whose deviation is a part of their size.

What is printed is measured on databases left out, in turn by --folds: how many lists have a right
plan first, with the present weights and with those fitted to the other databases; then each weight
with its fitted value, in how many lists it distinguishes plans, and how many lists have another
plan first without it: won, lost, and others. --write puts the values into the file.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import kgqa.weights
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FILE = Path(kgqa.weights.__file__).parent / "data" / "weights.toml"
TEMPERATURE = 1.25  # of the plan scorer: what a plan's probability is calibrated for
STEPS, RATE = 400, 0.05
_LEAST = 0.5  # the size of which a smaller weight's deviation is a part


class PlanList(NamedTuple):
    """The plans of a question: features ``[plans, weights]``, scores and whether they are right."""

    database: str
    features: Array
    scores: Array
    right: NDArray[np.bool_]


def read(files: Sequence[Path], names: Sequence[str]) -> list[PlanList]:
    """Return the lists that have both a right and a wrong plan."""
    place = {name: at for at, name in enumerate(names)}
    found = []
    for file in files:
        for line in file.read_text("utf-8").splitlines():
            row = json.loads(line)
            right = {*row["right"]} or {*row["same"]}
            kept = [at for at in range(len(row["plans"])) if at in right or at not in row["same"]]
            features = np.zeros((len(kept), len(names)))
            for number, at in enumerate(kept):
                for name, value in row["features"][at].items():
                    if name in place:
                        features[number, place[name]] = value
            is_right = np.array([at in right for at in kept], bool)
            if is_right.any() and not is_right.all():
                scores = np.array([row["scores"][at] for at in kept])
                found.append(PlanList(row["database"], features, scores, is_right))
    return found


class Logit:
    """The conditional logit of some lists, as changes of the present weights."""

    def __init__(self, lists: Sequence[PlanList], present: Array, prior: float) -> None:
        self._present, self._deviation = present, prior * np.maximum(np.abs(present), _LEAST)
        self._features = np.concatenate([one.features for one in lists])
        self._scores = np.concatenate([one.scores for one in lists])
        self._right = np.concatenate([one.right for one in lists])
        sizes = np.array([len(one.scores) for one in lists])
        self._starts = np.cumsum(sizes) - sizes
        self._of = np.repeat(np.arange(len(lists)), sizes)
        self._weight = self._evenly(lists)[self._of]

    @staticmethod
    def _evenly(lists: Sequence[PlanList]) -> Array:
        """Return what each list counts: databases of many lists count by their number's root."""
        many: dict[str, int] = defaultdict(int)
        for one in lists:
            many[one.database] += 1
        counts = np.array([1 / np.sqrt(many[one.database]) for one in lists])
        return np.asarray(counts / counts.mean())

    def gradient(self, change: Array) -> Array:
        """Return the gradient of the negative log-posterior at a change of the weights."""
        scores = (self._scores + self._features @ change) / TEMPERATURE
        every = self._softmax(scores, np.ones_like(scores))
        right = self._softmax(scores, self._right.astype(float))
        slope = self._features.T @ (self._weight * (every - right)) / TEMPERATURE
        return np.asarray(slope + change / self._deviation**2)

    def _softmax(self, scores: Array, among: Array) -> Array:
        """Return the probabilities of plans within their lists, of those ``among``."""
        most = np.maximum.reduceat(np.where(among > 0, scores, -np.inf), self._starts)[self._of]
        odds = np.exp(np.minimum(scores - most, 0)) * among
        return np.asarray(odds / np.add.reduceat(odds, self._starts)[self._of])

    def fitted(self) -> Array:
        """Return the weights of the highest posterior, found by Adam; none changes its sign."""
        change = np.zeros_like(self._present)
        mean, square = np.zeros_like(change), np.zeros_like(change)
        for step in range(1, STEPS + 1):
            slope = self.gradient(change)
            mean = 0.9 * mean + 0.1 * slope
            square = 0.99 * square + 0.01 * slope**2
            rate = RATE * (1 - step / STEPS) + 1e-3
            change -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
            now = self._present + change
            now = np.where(now * self._present < 0, 0.0, now)
            change = now - self._present
        return np.asarray(self._present + change)


def first_right(lists: Sequence[PlanList], change: Array) -> NDArray[np.bool_]:
    """Return for each list whether the plan that a change of the weights puts first is right."""
    return np.array([one.right[np.argmax(one.scores + one.features @ change)] for one in lists])


def left_out(lists: Sequence[PlanList], present: Array, prior: float, folds: int) -> None:
    """Print what is right first of the lists of databases left out, before and after."""
    databases = sorted({one.database for one in lists})
    groups = {name: number % folds for number, name in enumerate(databases)}
    rows: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for fold in range(folds):
        learnt = [one for one in lists if groups[one.database] != fold]
        tried = [one for one in lists if groups[one.database] == fold]
        change = Logit(learnt, present, prior).fitted() - present
        old, new = first_right(tried, np.zeros_like(present)), first_right(tried, change)
        for one, before, after in zip(tried, old, new, strict=True):
            name = one.database.partition("/")[0] if "/" in one.database else "made"
            rows[name].append((bool(before), bool(after)))
    for name, pairs in [
        *sorted(rows.items()),
        ("all", [one for some in rows.values() for one in some]),
    ]:
        before, after = (100 * float(np.mean([pair[at] for pair in pairs])) for at in (0, 1))
        won = sum(after and not before for before, after in pairs)
        lost = sum(before and not after for before, after in pairs)
        print(f"left out {name}: {len(pairs)} lists, {before:.1f} -> {after:.1f}, "
              f"won {won}, lost {lost}")  # fmt: skip


def effects(lists: Sequence[PlanList], names: Sequence[str], present: Array, now: Array) -> None:
    """Print each weight with what its absence would change."""
    change = now - present
    base = [int(np.argmax(one.scores + one.features @ change)) for one in lists]
    for at, name in enumerate(names):
        active = won = lost = other = 0
        for one, first in zip(lists, base, strict=True):
            column = one.features[:, at]
            if np.ptp(column) == 0:
                continue
            active += 1
            scores = one.scores + one.features @ change - now[at] * column
            without = int(np.argmax(scores))
            if without != first:
                before, after = one.right[first], one.right[without]
                won += after and not before
                lost += before and not after
                other += before == after
        print(f"{name}: {present[at]:g} -> {now[at]:.2f}, in {active}, without it won {won}, "
              f"lost {lost}, other {other}")  # fmt: skip


def write(names: Sequence[str], now: Array) -> None:
    """Put the fitted values into the file, beside its comments."""
    text = FILE.read_text("utf-8")
    for name, value in zip(names, now, strict=True):
        text, many = re.subn(rf"(?m)^{name} = \S+", f"{name} = {round(float(value), 2)!r}", text)
        assert many == 1, name
    FILE.write_text(text, "utf-8")


def main() -> None:
    """Fit as the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lists", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--prior", type=float, default=0.3, help="deviation, as a part of a weight")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    table = weights("planning")
    names = [name for name in table if not name.startswith("noun_")]
    present = np.array([table[name] for name in names])
    lists = read(given.lists, names)
    left_out(lists, present, given.prior, given.folds)
    now = Logit(lists, present, given.prior).fitted()
    effects(lists, names, present, now)
    if given.write:
        write(names, now)


if __name__ == "__main__":
    main()
