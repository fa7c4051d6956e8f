"""The tables of ``english.toml``, read once."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Any


@lru_cache(maxsize=1)
def english() -> dict[str, Any]:
    """Return the tables as they stand in the file."""
    return tomllib.loads(files("kgqa.lexicon").joinpath("english.toml").read_text("utf-8"))


def opposites(word: str) -> list[str]:
    """Return what a thing is called that is not as ``word`` says, by the table ``opposites``.

    >>> opposites("enabled"), opposites("blue")
    (['disabled'], [])
    """
    given: dict[str, str] = english()["opposites"]
    return given.get(word, "").split()


@lru_cache(maxsize=64)
def words(name: str) -> frozenset[str]:
    """Return the words of a list of the table ``words``.

    >>> "seven" in words("numbers")
    True
    """
    return frozenset(english()["words"][name].split())
