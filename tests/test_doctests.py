"""Every example in a docstring prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections import defaultdict

import pytest

import kgqa

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(kgqa.__path__, "kgqa.")
    if not module.name.endswith("__main__")
)


def rooms() -> dict[str, list[str]]:
    """Return the modules of each room, the second part of a module's name."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in MODULES:
        found[name.split(".")[1]].append(name)
    return found


@pytest.mark.parametrize("room", sorted(rooms()))
def test_examples_in_docstrings_print_what_they_say(room: str) -> None:
    failed = {}
    for name in rooms()[room]:
        said = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
        if said.failed:
            failed[name] = said.failed
    assert failed == {}


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    found = finder.find(importlib.import_module("kgqa.understanding.direction"))
    assert sum(bool(each.examples) for each in found) > 2
