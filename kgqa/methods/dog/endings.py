"""When the free text of a chain is over: its answer is said, or it leads nowhere.

A small model goes on for as long as it may, so these two are where most of its forwards would go.
Nothing here reads a fact from a text, and all it can do is to end one sooner. What this does not
do: read the answer (:mod:`kgqa.methods.dog.answers`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgqa.answers.naming import form_of
from kgqa.methods.dog.answers import CLAIM, STAR, names_of_line

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

TIMES = 3  # that a block of tokens is written in a row before it counts as repeated
REPEATED = 24  # tokens that they are together at least: three dots are no loop
_CONCLUDES = re.compile(r"\btherefore\b[\s,:]*(?:(?:the|my|final|correct)\s+)*$", re.IGNORECASE)
_STOP = re.compile(r"\.(?=\s)")
# what a full stop may be a part of, in a name that is not known: an initial, letters with stops
# between them, a usual abbreviation
_SHORT = re.compile(
    r"(?:^|[\s.(&])(?:[^\W\d_]|[^\W\d_]+\.[^\W\d_]+|st|dr|mrs?|ms|jr|sr|prof|gen|col|capt|lt|sgt|"
    r"rev|hon|mt|ft|vol|no|pt|op|ep|vs|feat|inc|ltd|co|corp|bros|ave)$",
    re.IGNORECASE,
)


def answer_end(text: str, names: Collection[str] = ()) -> int | None:
    """Return where the answer line of a text ends, None while it has none that is whole.

    A line counts that says ``Therefore, the answer is X`` or ``the answer is * X``. It ends at a
    line feed, or after a full stop with white space and something else than a further ``* X`` after
    it. A full stop that belongs to a name is no end: one inside one of ``names`` (casefolded) that
    the line has or may still become, or after an initial or a usual abbreviation ("J. R. R.",
    "D.C.", "St."), unless a name of ``names`` ends there. Where that leaves it open, the line goes
    on: rather too long a text than half a name.
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
    """Return the end of the line that ``text`` begins with, None where it may go on."""
    line, feed, _ = text.partition("\n")
    stars = [star.end() for star in STAR.finditer(line)]
    for stop in _STOP.finditer(line):
        at = stop.start()
        begin = max((one for one in stars if one <= at), default=0)
        if not form_of(line[begin:at]):
            continue
        rest = line[at + 1 :].lstrip()
        if not rest:
            break  # what comes next is not known, or it is the line feed
        if rest.startswith("*"):
            continue
        written = line[begin:].lstrip(" \t\"'`").casefold()
        named = written[: len(written) - len(line) + at]  # up to the full stop
        if any(len(one) > len(named) + 1 and written.startswith(one) for one in names):
            continue
        if not feed and any(one.startswith(written) for one in names):
            return None
        if named in names or f"{named}." in names or not _SHORT.search(named):
            return at + 1
    return len(line) if feed and names_of_line(line) is not None else None


def idle(tokens: Sequence[int], most: int) -> str | None:
    """Return a note where a thought of ``tokens`` goes in circles or is longer than ``most``.

    It goes in circles where its last tokens are a block three times in a row, 24 tokens at least:
    greedy decoding does not leave such a loop.
    """
    for length in range(1, len(tokens) // TIMES + 1):
        shown = max(TIMES, -(-REPEATED // length))
        block = tokens[-length:]
        if len(tokens) >= shown * length and list(tokens[-shown * length :]) == list(block) * shown:
            return "A thought that repeated itself was ended."
    if len(tokens) > most:
        return f"A thought was ended that had gone on for {most} tokens without a triplet."
    return None
