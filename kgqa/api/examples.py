"""Questions to begin with: one for each of the frequent relations, about an entity."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgqa.errors import KgqaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kgqa.queries.result import QueryResult

_SECONDS = 2.0  # that a relation may take
_LONGEST = 60  # characters of a name
_ENDS = re.compile(r".* (?:by|in|at|to|from|with|on|for)")


def example_questions(
    relations: Sequence[Mapping[str, str]], query: Callable[..., QueryResult], most: int
) -> list[str]:
    """Return questions that a KG answers, ``most`` at most. Raises GraphError.

    ``relations``: each with a ``plan`` that gives its heads; ``query`` runs one.
    """
    questions: dict[str, str] = {}  # by relation
    for place, relation in enumerate(relations):
        if len(questions) == most:
            break
        if relation["relation"] in questions:
            continue
        try:
            rows = query(f"{relation['plan']} | limit 8", rows=8, seconds=_SECONDS).rows
        except KgqaError:  # too slow, or no plan of this KG
            continue
        names = [getattr(row[0], "name", None) or "" for row in rows]
        names = [name for name in names if 0 < len(name) <= _LONGEST]
        if names:
            questions[relation["relation"]] = _question(
                relation["relation"], names[place % len(names)]
            )
    return list(questions.values())


def _question(relation: str, name: str) -> str:
    """Return a question for a relation of an entity.

    >>> _question("captain", "Aurora"), _question("dependsOn", "billing")
    ('What is the captain of Aurora?', 'What does billing depend on?')
    >>> _question("ACTED_IN", "Tom Hanks"), _question("hasIngredient", "soup")
    ('Tom Hanks acted in what?', 'What ingredient does soup have?')
    >>> _question("wrote", "Ibsen")
    'Ibsen wrote what?'
    """
    from kgqa.paths.words import relation_phrase
    from kgqa.queries.sentence import PAST_VERBS

    phrase = relation_phrase(relation)
    first, _, rest = phrase.partition(" ")
    if first == "has" and rest:
        return f"What {rest} does {name} have?"
    if phrase.endswith(" of"):
        return f"What is the {phrase} {name}?"
    if relation.isupper() and (first.endswith("ed") or _ENDS.fullmatch(phrase)):
        return f"{name} {phrase} what?"  # so named, it is what the head does
    if _ENDS.fullmatch(phrase) and not first.endswith("s"):
        return f"What is {name} {phrase}?"
    if first.endswith("ed") or first in PAST_VERBS:
        return f"{name} {phrase} what?"
    if first.endswith("s") and not first.endswith("ss") and (rest or first.endswith("es")):
        stem = f"{first[:-3]}y" if first.endswith("ies") else first[:-1]
        return f"What does {name} {f'{stem} {rest}'.strip()}?"
    return f"What is the {phrase} of {name}?"
