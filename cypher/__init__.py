"""Every Cypher statement, one a file, and the style for Neo4j Browser.

A file is runnable in Browser as it stands; its parameters are shown as ``:param`` lines in a
comment. A label cannot be a parameter of Cypher, so the files are written for the label
``Freebase``, always in backticks, and :func:`statement` puts the real one in, escaped, so that no
name of a KG can be read as Cypher.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from kgqa.display import escape_hidden

if TYPE_CHECKING:
    from collections.abc import Mapping

_LABEL = "`Freebase"  # with its opening backtick; names of indexes go on after it
_UNICODE_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u")
_PLACES = re.compile(rf"{re.escape(_LABEL)}|\$[a-z_]+\b")


@cache
def text(name: str) -> str:
    """Return the text of a file of this package. Raises FileNotFoundError."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


@cache
def names() -> tuple[str, ...]:
    """Return the names of all statements, sorted."""
    found = (entry.name for entry in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(".cypher") for name in found if name.endswith(".cypher")))


@cache
def statement(name: str, label: str | None = None) -> str:
    """Return a statement without its comment, for a KG's label.

    Raises ValueError if the statement needs a label that is not given, or has no place for one
    that is: such a call was meant for another statement.
    """
    return _filled(name, label, {})


def inlined(name: str, values: Mapping[str, str], label: str | None = None) -> str:
    """Return a statement that needs no parameters, because their values stand in it.

    ``values``: the Cypher of each parameter, made by :func:`literal` or from a number. Raises
    ValueError as :func:`statement` does, and if a parameter has no value.
    """
    return _filled(name, label, values)


def body_of(name: str) -> str:
    """Return a statement as its file has it, without the comment."""
    lines = text(f"{name}.cypher").splitlines()
    return "\n".join(line for line in lines if not line.startswith("//")).strip()


def _filled(name: str, label: str | None, values: Mapping[str, str]) -> str:
    body = body_of(name)
    if (label is None) != (_LABEL not in body):
        raise ValueError(f"statement {name}: a label is given or needed, not both")
    safe = None if label is None else "`" + escaped(label)

    def put(place: re.Match[str]) -> str:
        found = place[0]
        if found == _LABEL:
            return safe or found
        if values and found[1:] not in values:
            raise ValueError(f"statement {name}: the parameter {found} has no value")
        return values.get(found[1:], found)

    # One pass, so that nothing that is put in is taken for a place to put something in.
    return _PLACES.sub(put, body)


def escaped(name: str) -> str:
    """Return ``name`` as it stands between backticks in Cypher.

    >>> escaped("a`b")
    'a``b'
    """
    if not name or "\0" in name:
        raise ValueError("a name in Cypher is not empty and holds no NUL")
    # Cypher reads \uXXXX before anything else, in names too, after an even number of backslashes.
    return _UNICODE_ESCAPE.sub(r"\1\\u005cu", name).replace("`", "``")


def literal(value: str) -> str:
    r"""Return ``value`` as a string literal of Cypher.

    >>> print(literal("it's"))
    'it\'s'
    """
    plain = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escape_hidden(plain)}'"
