"""The tables of the lexicon: files of this folder that a person can read and extend."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def tables_of(file: str) -> dict[str, Any]:
    """Return the tables of a file as they stand in it; it is read once."""
    return tomllib.loads(files("kgqa.lexicon").joinpath(file).read_text("utf-8"))
