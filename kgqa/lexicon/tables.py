"""Reads the lexicon's tables: files in this folder that a person can edit."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def tables_of(file: str) -> dict[str, Any]:
    """Return the tables of a file of this package; each file is read once."""
    return tomllib.loads(files("kgqa.lexicon").joinpath(file).read_text("utf-8"))
