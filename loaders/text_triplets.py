"""What a general LLM is asked about a paragraph, and its reply read line by line.

The reply is lines ``head | relation | tail | number of the sentence``. The reading is strict: a
line of another form, or one whose head or tail does not stand in the paragraph or its title, is
rejected with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgqa.graph.names import is_storable, normalise

if TYPE_CHECKING:
    from collections.abc import Sequence

PROMPT_VERSION = 1
NOTHING = "none"
LONGEST_NAME = 200  # characters
LONGEST_RELATION = 80

CUT = "the reply was cut short here"
COLUMNS = "not head | relation | tail | sentence"
EMPTY = "an empty part"
NO_NUMBER = "no number of a sentence"
NO_SENTENCE = "no sentence of this number"
TOO_LONG = "a name or relation too long to be one"
NO_WORD = "a name or relation without a letter or digit"
NOT_TEXT = "holds something that is not text"
TO_ITSELF = "head and tail are the same"
NO_HEAD = "the head is not in the paragraph"
NO_TAIL = "the tail is not in the paragraph"

_TASK = """\
Take the facts out of a paragraph. Write each fact on a line of its own, in four parts with | \
between them:
head | relation | tail | number of the sentence that says so

Head and tail are names of people, places, works, organisations or things, dates or numbers, \
written as the paragraph writes them. Where it says he, she or it, write the name. The relation is \
a few words, the same words for the same relation. Write only what the paragraph says. Where it \
says no fact, write: none

Title: Marsh Lark
1. The Marsh Lark is a small boat built in Aven in 1911.
2. It was designed by Ona Reed, who was born in Tolm.

Marsh Lark | built in | Aven | 1
Marsh Lark | year built | 1911 | 1
Marsh Lark | designed by | Ona Reed | 2
Ona Reed | born in | Tolm | 2

Now this paragraph. Write only the lines.

"""


@dataclass(frozen=True, slots=True)
class Triplet:
    """A fact that a paragraph states; ``sentence`` counts from 0."""

    head: str
    relation: str
    tail: str
    sentence: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line of a reply that is not a triplet of its paragraph; ``line`` counts from 1."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a reply says. ``lines``: those that are not blank, each a triplet, rejected or "none".

    ``nothing``: the reply says that the paragraph states no fact.
    """

    triplets: tuple[Triplet, ...]
    rejected: tuple[Rejected, ...]
    lines: int
    nothing: bool


def prompt(title: str, sentences: Sequence[str]) -> str:
    """Return what the model is asked about a paragraph."""
    heading = f"Title: {title}\n" if title else ""
    return _TASK + heading + "\n".join(f"{at}. {text}" for at, text in enumerate(sentences, 1))


def read_reply(text: str, title: str, sentences: Sequence[str], *, cut: bool = False) -> Extraction:
    """Return the triplets that a reply states of a paragraph, and the lines that are malformed.

    ``cut``: the reply ended because it was too long, so that its last line cannot be trusted.
    """
    # only line feeds end a line: other separators that Unicode knows may stand in a name
    lines = [
        (at, text_line.strip())
        for at, text_line in enumerate(text.split("\n"), 1)
        if text_line.strip()
    ]
    if len(lines) == 1 and normalise(lines[0][1]) == NOTHING and not cut:
        return Extraction((), (), 1, nothing=True)
    # no name holds a |
    words = f" {normalise(' '.join(sentences))} | {normalise(title)} "
    triplets: list[Triplet] = []
    rejected: list[Rejected] = []
    for place, (number, line) in enumerate(lines, 1):
        triplet = CUT if cut and place == len(lines) else _triplet(line, words, len(sentences))
        if isinstance(triplet, str):
            rejected.append(Rejected(number, triplet, line))
        else:
            triplets.append(triplet)
    return Extraction(tuple(triplets), tuple(rejected), len(lines), nothing=False)


def _triplet(line: str, words: str, sentences: int) -> Triplet | str:
    """Return the triplet of a line, or why it is malformed; ``words``: what the paragraph says."""
    parts = [" ".join(part.split()) for part in line.split("|")]
    if len(parts) != 4:
        return COLUMNS
    head, relation, tail, number = parts
    if not all(parts):
        return EMPTY
    if not (number.isascii() and number.isdecimal() and len(number) < 6):
        return NO_NUMBER
    if not 1 <= int(number) <= sentences:
        return NO_SENTENCE
    if max(len(head), len(tail)) > LONGEST_NAME or len(relation) > LONGEST_RELATION:
        return TOO_LONG
    if not all(is_storable(part) and part.isprintable() for part in parts):
        return NOT_TEXT
    first, said, second = (normalise(part) for part in parts[:3])
    if not (first and said and second):
        return NO_WORD
    if first == second:
        return TO_ITSELF
    if f" {first} " not in words:
        return NO_HEAD
    if f" {second} " not in words:
        return NO_TAIL
    return Triplet(head, relation, tail, int(number) - 1)
