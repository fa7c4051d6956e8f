r"""Text on its way out: nothing in a name, a question or an error is interpreted by what shows it.

Terminals obey control characters; bidi controls reorder what stands beside them; zero-width
characters make two names look alike. All are shown as escapes (``\x1b``, ``\u202e``). The JSON
contract stays exact: there they are JSON's own escapes, which every reader turns back.
"""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Unicode's categories Cc, Cf, Cs, Zl and Zp and its Default_Ignorable_Code_Point; but the joiners
# of Arabic and Indic scripts, between their letters, are spelling
_HIDDEN = re.compile(
    r"(?!(?<=[\u0620-\u0dff])[\u200c\u200d](?=[\u0620-\u0dff]))"
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\ud800-\udfff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_BREAKS = str.maketrans("\t\n\r\v\f", " " * 5)


def visible(text: str) -> str:
    r"""Return ``text`` on one line, with an escape for each character that would not be seen.

    >>> visible("a\x1b[31mb\u202e c\n")
    'a\\x1b[31mb\\u202e c '
    """
    return _HIDDEN.sub(_escape, text.translate(_BREAKS))


def escape_hidden(text: str) -> str:
    r"""Return ``text`` with JSON's escape for each character that would not be seen.

    Cypher reads the same ones in its strings.

    >>> escape_hidden("a\u202eb")
    'a\\u202eb'
    """
    return _HIDDEN.sub(lambda hidden: json.dumps(hidden[0])[1:-1], text)


def as_html(value: object) -> str:
    """Return ``value`` as text of an HTML page or the value of an attribute of it."""
    return html.escape(visible(str(value)), quote=True)


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """Return ``value`` as JSON on one line; what a terminal would interpret is escaped in it."""
    return escape_hidden(json.dumps(value, ensure_ascii=ascii_only))


def shown_name(name: str) -> str:
    r"""Return a name as a part of a path: what could be taken for the path's own marks is escaped.

    >>> shown_name("^a -> b")
    '\\^a -\\> b'
    """
    return re.sub(r"^\^", r"\\^", visible(name)).replace("->", "-\\>")


def shown_relation(edge: Any) -> str:
    """Return the relation of a grounded path's edge; ``^`` before it means against its direction.

    ``edge``: has ``head``, ``relation`` and ``facts``, the stored triples behind it in order.
    """
    halves = edge.relation.split("..") if len(edge.facts) == 2 else [edge.relation]
    if len(halves) != len(edge.facts):
        return shown_name(edge.relation)
    at, shown = edge.head.id, []
    for half, fact in zip(halves, edge.facts, strict=True):
        against = fact.head != at
        at = fact.head if against else fact.tail
        marked = against and half.startswith("^")
        shown.append(f"^{shown_name(half[1:])}" if marked else shown_name(half))
    return "..".join(shown)


def path_parts(edges: Iterable[Any]) -> list[str]:
    """Return what stands before, between and after the relations of a path, and these, in turn.

    An edge that does not begin where the one before it ended stands after a bar.
    """
    parts, at = [""], None
    for edge in edges:
        if edge.head.id != at:
            parts[-1] += f"{' | ' if at is not None else ''}{shown_name(edge.head.name)}"
        at = edge.tail.id
        parts[-1] += " -> "
        parts += [shown_relation(edge), f" -> {shown_name(edge.tail.name)}"]
    return parts


def read_name(shown: str) -> str:
    """Return the name that :func:`shown_name` shows, if nothing in it is hidden."""
    return re.sub(r"^\\\^", "^", shown).replace("-\\>", "->")


def _escape(hidden: re.Match[str]) -> str:
    code = ord(hidden[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


NOT_HERE = "Not in this graph"


def refusal(notes: Sequence[str], confidence: float | None) -> str:
    """Return in words that there is no answer and how sure that is, given an answer's notes.

    >>> refusal(["Not in this graph: Ada has no fact that answers this."], 0.97)
    'Not in this graph (fairly sure): Ada has no fact that answers this.'
    >>> refusal([], 0.2)
    'No answer: the facts found are not evidence enough.'
    """
    why = next((note for note in notes if note.startswith(NOT_HERE)), "")
    if why and confidence is not None:
        sure = "fairly sure" if confidence >= 0.9 else "probably" if confidence >= 0.7 else "unsure"
        return why.replace(NOT_HERE, f"{NOT_HERE} ({sure})", 1)
    return why or "No answer: the facts found are not evidence enough."
