"""The answers of chains: parsed from a chain's last line, and linked back to entities.

The line is ``Therefore, the answer is * X, and * Y.`` Only entities of the chain's own triplets are
grounded. A chain without such a line answers with what its last triplet reached.

A small model goes on for as long as it may: :func:`answer_end` and :func:`idle` find where a text
can be ended sooner. Nothing there reads a fact from a text.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import RankedAnswer
from kgqa.answers.naming import PathNames, form_of, in_graph
from kgqa.decoding.span_markers import FreeText
from kgqa.paths.ground import Node
from kgqa.paths.triplets import END

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kgqa.answers.answer import ScoredPath
    from kgqa.decoding.span_markers import Span
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore

CLAIM = re.compile(r"\banswers?\s+(?:is|are)\b\s*:?", re.IGNORECASE)
STAR = re.compile(r"(?:^|(?<=\s))\*+(?=\s)")  # not the star inside M*A*S*H
_AND = re.compile(r"(?:[,;]\s*|\s+)and\s*$", re.IGNORECASE)
_NOTHING = frozenset({"none", "unknown", "not known"})
TIMES = 3  # that a block of tokens is written in a row before it counts as repeated
REPEATED = 24  # tokens that they are together at least: three dots are not a loop
_CONCLUDES = re.compile(r"\btherefore\b[\s,:]*(?:(?:the|my|final|correct)\s+)*$", re.IGNORECASE)
_STOP = re.compile(r"\.(?=\s)")
# what a full stop may be a part of, in a name that is not known: an initial, letters with stops
# between them, a usual abbreviation
_SHORT = re.compile(
    r"(?:^|[\s.(&])(?:[^\W\d_]|[^\W\d_]+\.[^\W\d_]+|st|dr|mrs?|ms|jr|sr|prof|gen|col|capt|lt|sgt|"
    r"rev|hon|mt|ft|vol|no|pt|op|ep|vs|feat|inc|ltd|co|corp|bros|ave)$",
    re.IGNORECASE,
)


def claimed(pieces: Sequence[FreeText | Span]) -> list[str] | None:
    """Return the distinct names that a chain states as the answer, None if it has no answer line.

    The last such line counts. An answer of "none" is an empty list.
    """
    for piece in reversed(pieces):
        claims = list(CLAIM.finditer(piece.text)) if isinstance(piece, FreeText) else []
        if claims:
            line = piece.text[claims[-1].end() :].strip().split("\n", 1)[0]
            if (names := names_of_line(line)) is not None:
                return names
    return None


def names_of_line(line: str) -> list[str] | None:
    """Return the distinct names after ``the answer is``, None if there are none; [] for "none"."""
    starred = STAR.split(line)
    parts = starred[1:] if len(starred) > 1 else starred
    names = [_name(part, last=at == len(parts) - 1) for at, part in enumerate(parts)]
    named = {form_of(name): name for name in reversed(names) if form_of(name)}
    if not named:
        return None
    return [named[form] for form in reversed(named) if form not in _NOTHING]


def _name(text: str, *, last: bool) -> str:
    """Return a name without quotes and punctuation around it.

    A trailing "and" is removed, too, unless it is the ``last`` name.
    """
    text = text.strip()
    if not last:
        text = _AND.sub("", text).rstrip(" ,;")
    return text.rstrip(".,;").strip().strip("\"'`*").strip()


def answer_end(text: str, names: Collection[str] = ()) -> int | None:
    """Return the index at which the answer line of a text ends, None while it is incomplete.

    An answer line has the form ``Therefore, the answer is X`` or ``the answer is * X``. It ends at
    a line feed, or at a full stop before white space unless another ``* X`` follows, or the stop
    belongs to a name: one of ``names`` (casefolded) that the line has or may still become, an
    initial or a usual abbreviation ("J. R. R.", "D.C.", "St."). In doubt the line continues: too
    long a text is better than half a name.
    """
    for claim in CLAIM.finditer(text):
        after = text[claim.end() :]
        start = claim.end() + len(after) - len(after.lstrip())
        if text.startswith("*", start) or _CONCLUDES.search(text[: claim.start()]):
            end = _line_end(text[start:], names)
            if end is not None:
                return start + end
    return None


def _line_end(text: str, names: Collection[str]) -> int | None:
    """Return the end of the answer line that ``text`` begins with, None if it may continue.

    ``names``: casefolded names, in which a full stop does not end it.
    """
    line, feed, _ = text.partition("\n")
    stars = [star.end() for star in STAR.finditer(line)]
    for stop in _STOP.finditer(line):
        at = stop.start()
        begin = max((star for star in stars if star <= at), default=0)
        if not form_of(line[begin:at]):
            continue
        rest = line[at + 1 :].lstrip()
        if not rest:
            break  # what comes next is not known, or it is the line feed
        if rest.startswith("*"):
            continue
        written = line[begin:].lstrip(" \t\"'`").casefold()
        named = written[: len(written) - len(line) + at]  # up to the full stop
        if any(len(name) > len(named) + 1 and written.startswith(name) for name in names):
            continue
        if not feed and any(name.startswith(written) for name in names):
            return None
        if named in names or f"{named}." in names or not _SHORT.search(named):
            return at + 1
    return len(line) if feed and names_of_line(line) is not None else None


def idle(tokens: Sequence[int], most: int) -> str | None:
    """Return a note why a thought must end: it loops or has more than ``most`` tokens; else None.

    It loops if its last tokens are a block three times in a row, 24 tokens at least: greedy
    decoding does not leave such a loop.
    """
    for length in range(1, len(tokens) // TIMES + 1):
        shown = max(TIMES, -(-REPEATED // length))
        block = tokens[-length:]
        if len(tokens) >= shown * length and list(tokens[-shown * length :]) == list(block) * shown:
            return "A thought that repeated itself was ended."
    if len(tokens) > most:
        return f"A thought was ended that had gone on for {most} tokens without a triplet."
    return None


class GraphNames:
    """Links names to entities of the chain, then of the prompt's graph, then of the KG.

    ``rows``: the triplets of the prompt's graph, shape ``[n, 5]``.
    """

    def __init__(self, store: GraphStore, rows: IntArray) -> None:
        self._store = store
        ends = store.entities(np.unique(rows[:, (0, END)]))
        self._known: dict[str, list[Node]] = {}
        for row, id_ in enumerate(ends.ids):
            node = Node(id_, ends.label(row))
            self._known.setdefault(form_of(node.name), []).append(node)

    def link(self, names: Sequence[str], path: ScoredPath | None) -> list[tuple[Node | str, bool]]:
        """Return the entities of each name, each with whether ``path`` ends in or passes it.

        A name without an entity is returned itself, with False. Raises GraphError.
        """
        chain = PathNames(path.groundings if path is not None else ())
        meant: list[tuple[Node | str, bool]] = []
        for name in names:
            nodes = chain.exact(name) or self._known.get(form_of(name), [])
            if not nodes:
                nodes = [node for node in in_graph(self._store, [name]) if node is not None]
            meant += [(node, chain.is_grounded(node)) for node in nodes] or [(name, False)]
        return meant


def reached(path: ScoredPath) -> list[tuple[Node | str, bool]]:
    """Return the entities that a chain's last triplet reached, one for each of its readings."""
    ends = {grounded.tail.id: grounded.tail for grounded in path.groundings}
    return [(node, True) for node in ends.values()]


def ranked(
    chains: Sequence[tuple[float, Sequence[tuple[Node | str, bool]]]],
) -> tuple[list[RankedAnswer], list[RankedAnswer]]:
    """Return the answers of the best chain, and the further answers of other chains.

    ``chains``: each one's score, best first, and its answers. An answer's score is the probability
    of the chains that give it, relative to all chains; a chain's probability is divided among its
    answers.
    """
    if not chains:
        return [], []
    top = max(score for score, _ in chains)
    weights = [math.exp(score - top) for score, _ in chains]
    total = math.fsum(weights)
    shown: dict[str, RankedAnswer] = {}
    mine: set[str] = set()
    for place, (weight, (_, answers)) in enumerate(zip(weights, chains, strict=True)):
        for what, grounded in answers:
            part = weight / total / len(answers)
            if isinstance(what, Node):
                key, answer = what.id, RankedAnswer(what.id, what.name, part, grounded)
            else:
                key, answer = f"\0{form_of(what)}", RankedAnswer(None, what, part, False)
            if key in shown:
                kept = answer if grounded else shown[key]
                answer = replace(kept, score=shown[key].score + part)
            shown[key] = answer
            if not place:
                mine.add(key)
    order = sorted(shown.items(), key=lambda item: -item[1].score)  # equal ones as written
    return [answer for key, answer in order if key in mine], [
        answer for key, answer in order if key not in mine
    ]
