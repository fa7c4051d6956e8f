"""The weights that choose between answers: ``kgqa/data/weights.toml``, a table for each room.

Each has a name that says what it is the weight of, and what it is worth was found on questions with
known answers: those of ``planning`` by ``python -m scripts.planner.fit_weights``, the others as
docs/internals.md says.
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
