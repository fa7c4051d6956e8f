"""Relations and relation paths as phrases, for a sentence encoder."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from kgqa.graph.names import ABBREVIATIONS
from kgqa.lexicon.english import words as english_words
from kgqa.lexicon.joined import split_joined
from kgqa.lexicon.lemmas import stem

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC = "x"  # the topic entity, in a relation path and in a question without its name
_STATIONS = "yzuvw"  # the entities between it and the last one
_WANTED = "?"  # the last one: what the question asks for
_LONGEST_EXAMPLE = 40  # characters
_PREFIXED = re.compile(r"[a-z][\w-]*:[A-Za-z]\w*")  # schema:birthPlace
_CAMEL = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    r"|(?<=[a-z]{3})(?=(?:\d\d|(?:1[89]|20)\d\d)$)"  # a year: sales2019, elo15
)


@lru_cache(65_536)
def relation_phrase(name: str) -> str:
    """Return a relation's name as words, whatever its naming style.

    Of an IRI, a path, a name with a prefix or with dots only the last part counts.

    >>> relation_phrase("http://example.org/kitchen#hasIngredient")
    'has ingredient'
    >>> relation_phrase("STOPS_AT"), relation_phrase("people.person.place_of_birth")
    ('stops at', 'place of birth')
    >>> relation_phrase("dob"), relation_phrase("unitsinstock"), relation_phrase("sales2019")
    ('date of birth', 'units in stock', 'sales 2019')
    >>> relation_phrase("/film/film/starring./film/performance/actor")
    'starring actor'
    """
    if "://" in name:
        name = re.split(r"[#/]", name.rstrip("/#"))[-1]
    elif _PREFIXED.fullmatch(name):
        name = name.partition(":")[2]
    elif name.startswith("/"):
        name = " ".join(part.rstrip("/").rpartition("/")[2] for part in name.split("./"))
    elif "." in name and " " not in name:
        name = name.rstrip(".").rpartition(".")[2]
    words = ABBREVIATIONS.get(name.lower()) or re.sub(r"[\W_]+", " ", _CAMEL.sub(" ", name))
    single = (part for word in words.lower().split() for part in split_joined(word))
    return " ".join(ABBREVIATIONS.get(word, word) for word in single) or name.lower()


@lru_cache(65_536)
def holds_both_ways(relation: str) -> bool:
    """Return whether a relation's name implies that it is symmetric.

    >>> holds_both_ways("MARRIED_TO"), holds_both_ways("married by"), holds_both_ways("reports to")
    (True, False, False)
    """
    said = relation_phrase(relation).split()
    if {*pairwise(said)} & {("next", "to"), ("same", "as")}:
        return True
    return any(
        stem(word) in english_words("both_ways") and after not in english_words("one_way")
        for word, after in zip(said, [*said[1:], ""], strict=True)
    )


def relation_path_text(
    steps: Sequence[tuple[int, int]], phrases: Sequence[str], examples: Sequence[str] = ()
) -> str:
    """Return a relation path as a phrase from the topic entity ``x`` to the answer ``?``.

    ``steps``: two of each hop (2 * relation, + 1 reversed), the second -1 without a mediator;
    ``phrases``: of relations by key; ``examples``: names of entities that such paths end in, which
    say what kind of thing it is.

    >>> relation_path_text([(1, -1), (2, -1)], ["treated by", "lives in"], ["Bonn"])
    'y treated by x, y lives in ? such as Bonn'
    """
    stations = [TOPIC, *_STATIONS[: len(steps) - 1], _WANTED]
    parts = []
    for hop, (left, right) in zip(steps, pairwise(stations), strict=True):
        taken = [step for step in hop if step >= 0]
        words = " ".join(phrases[step // 2] for step in taken)
        against = all(step % 2 for step in taken)
        parts.append(f"{right} {words} {left}" if against else f"{left} {words} {right}")
    text = ", ".join(parts)
    if examples:
        text += " such as " + ", ".join(example[:_LONGEST_EXAMPLE] for example in examples)
    return text
