"""Whether two entities are connected as a question says: yes, or not in this graph.

Out of each of the two its relation paths are ranked by the question without both names, as for any
question. The ones that lead to the other entity say what is asked if they have enough of the
probability: the geometric mean of both sides, since "capital of" leads from Lyon to nothing, but
from France to Paris. A graph is never a proof of no.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.paths.walk import PathTable

YES, NO = "yes", "no"
YES_THRESHOLD = (
    0.1  # probability from which a connection says it; chosen on yes_no.jsonl of tests/data
)


@dataclass(frozen=True, slots=True)
class Connection:
    """How sure it is that paths between two entities say what is asked.

    ``rows``: of the table of the topic number ``side``, those that lead to the other entity, the
    likeliest first.
    """

    probability: float
    side: int
    rows: IntArray


def connection(
    keys: tuple[int, int],
    tables: Sequence[PathTable],
    of: Sequence[IntArray],
    probability: Sequence[NDArray[np.float64]],
) -> Connection:
    """Return how two topic entities are connected, each the end of the other's paths.

    ``tables``: the paths out of each; ``of``: which relation path each has; ``probability``: of
    each relation path. A side that no path leads out of to the other does not count, unless both
    are such.
    """
    best = Connection(0.0, 0, np.zeros(0, np.int64))
    sides = []
    for side, table in enumerate(tables):
        rows = np.flatnonzero(table.ends() == keys[1 - side])
        if not len(rows):
            continue
        share = float(probability[side][np.unique(of[side][rows])].sum())
        sides.append(share)
        if not len(best.rows) or share > best.probability:
            rows = rows[np.argsort(-probability[side][of[side][rows]], kind="stable")]
            best = Connection(share, side, rows)
    return Connection(
        min(math.prod(sides) ** (1 / len(sides)), 1.0) if sides else 0.0, best.side, best.rows
    )
