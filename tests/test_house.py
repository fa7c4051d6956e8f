"""The house: English stands in the lexicon, and the guide names files that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kgqa

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOMS = ("linking", "planning", "methods", "answers")
_FUNCTIONS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "split"}
_ENGLISH = re.compile(r"(?<![\\\[a-zA-Z])[a-z]{3,}")
_LIST = 8  # words from which a text without a sentence is a list

# Found when this was written; a change that needs another pattern or list puts the words into
# kgqa/lexicon/english.toml, and one that removes some lowers the number.
CEILING = {"patterns": 125, "listed words": 12}


def constants(node: ast.AST) -> str:
    """Return all literal text in an expression."""
    return "".join(
        one.value
        for one in ast.walk(node)
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    )


def is_pattern(node: ast.AST) -> bool:
    """Return whether a call compiles or runs a pattern that has words of English."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return False
    module = node.func.value
    is_re = isinstance(module, ast.Name) and module.id == "re"
    return is_re and node.func.attr in _FUNCTIONS and bool(_ENGLISH.search(constants(node.args[0])))


def listed_words(tree: ast.Module) -> int:
    """Return how many words stand in lists: texts of words alone that a name is given."""
    count = 0
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        for one in ast.walk(value) if value is not None else ():
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                words = one.value.split()
                if len(words) >= _LIST and all(word.isalpha() and word.islower() for word in words):
                    count += len(words)
    return count


def test_patterns_and_word_lists_outside_the_lexicon_only_become_fewer() -> None:
    root = Path(kgqa.__file__).parent
    found = {"patterns": 0, "listed words": 0}
    for file in (file for room in ROOMS for file in sorted((root / room).rglob("*.py"))):
        tree = ast.parse(file.read_text("utf-8"))
        found["patterns"] += sum(map(is_pattern, ast.walk(tree)))
        found["listed words"] += listed_words(tree)
    assert found["patterns"] <= CEILING["patterns"], found
    assert found["listed words"] <= CEILING["listed words"], found


def test_the_guide_to_changes_names_files_that_exist() -> None:
    root = Path(kgqa.__file__).parents[1]
    guide = root / "CONTRIBUTING.md"
    if not guide.is_file():
        pytest.skip("an installed package has no CONTRIBUTING.md")
    rows = [line for line in guide.read_text("utf-8").splitlines() if line.startswith("| ")]
    places = [re.findall(r"`([^`]+)`", row.rsplit("|", 2)[1]) for row in rows[1:]]
    assert len(places) >= 20
    assert all(places), "each row names a place"
    gone = [place for row in places for place in row if not (root / place).exists()]
    assert not gone, gone


# What there was when this was written, by room; a change that makes it fewer lowers the number.
LONGEST, MOST_BRANCHES = 60, 20
_BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler, ast.comprehension)
TOO_LONG = {
    "answers": 0, "lexicon": 0, "linking": 0, "methods": 0, "planning": 0, "understanding": 0,
}  # fmt: skip
FRACTIONS = {
    "answers": 1, "lexicon": 1, "linking": 20, "methods": 10, "planning": 4, "understanding": 1,
}  # fmt: skip


def branches(function: ast.AST) -> int:
    """Return how many conditions, loops, and further operands of and/or a function has."""
    return sum(
        len(node.values) - 1 if isinstance(node, ast.BoolOp) else isinstance(node, _BRANCHES)
        for node in ast.walk(function)
    )


def nodes_of(room: str) -> Iterator[ast.AST]:
    """Yield all nodes of a room's modules."""
    for file in sorted((Path(kgqa.__file__).parent / room).rglob("*.py")):
        yield from ast.walk(ast.parse(file.read_text("utf-8")))


@pytest.mark.parametrize("room", TOO_LONG)
def test_long_functions_only_become_fewer(room: str) -> None:
    long = [
        node.name
        for node in nodes_of(room)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and ((node.end_lineno or 0) - node.lineno + 1 > LONGEST or branches(node) > MOST_BRANCHES)
    ]
    assert len(long) <= TOO_LONG[room], long


@pytest.mark.parametrize("room", FRACTIONS)
def test_fractions_in_code_only_become_fewer(room: str) -> None:
    found = [
        node.value
        for node in nodes_of(room)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, float)
        and node.value not in (0.0, 1.0)
    ]
    assert len(found) <= FRACTIONS[room], "a weight belongs into kgqa/data/weights.toml"
