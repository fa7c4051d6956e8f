"""The weights that choose between answers: ``kgqa/data/weights.toml``, a table for each room.

Each has a name that says what it is the weight of. ``scripts/planner/fit_weights.py`` compares
those of ``planning`` with what fits lists of plans (docs/models.md).
"""

from __future__ import annotations

import tomllib
from pathlib import Path

_FILE = Path(__file__).parent / "data" / "weights.toml"
ROOMS: dict[str, dict[str, float]] = tomllib.loads(_FILE.read_text("utf-8"))


def weights(room: str) -> dict[str, float]:
    """Return the weights of a room by name; every caller of a room has the same ones.

    Raises KeyError for a room without weights.
    """
    return ROOMS[room]
