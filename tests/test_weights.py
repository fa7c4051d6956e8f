"""The weights that choose between answers: the file and the code name the same ones."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kgqa
from kgqa.weights import ROOMS, weights

ROOT = Path(kgqa.__file__).parent


def used(room: str) -> set[str]:
    """Return the names of weights that a room's modules read."""
    found = set()
    for file in sorted((ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Subscript(ast.Name("WEIGHTS"), ast.Constant(str(name))):
                    found.add(name)
                case _:
                    pass
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_reads_each_of_its_weights_and_no_others(room: str) -> None:
    assert used(room) == {*weights(room)}


def test_weights_are_numbers_other_than_nought() -> None:
    for room in ROOMS:
        for name, value in weights(room).items():
            assert isinstance(value, float), name
            assert value != 0, f"{name} changes nothing: remove it"
