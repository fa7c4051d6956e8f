"""Looks up mentions in the graph: by exact name, id or alias, then by full text.

All mentions and their other forms are looked up in one call; full text is asked only about words
that no exact name explains, and only suggests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.model import Kind, keys_array
from kgqa.graph.names import normalise
from kgqa.linking.forms import is_misspelt, other_forms, partial_coverage
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from kgqa.graph.model import Entities, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.linking.mentions import ContentRun, Mention, QuestionWords
    from kgqa.linking.score import Match

WEIGHTS = weights("linking")
_SUGGESTED = 50  # entities full text is asked for, per run of words
_SUGGESTIONS = 6  # times full text is asked, per question
_KNOWN = 10  # edges from which an entity is the likely meaning of its one-word name
# About a language, but not asking which: "who speaks German", and not "what language do Germans …".
_OF_A_LANGUAGE = re.compile(
    r"(?!.*\b(?:what|which)\s+languages?\b).*\b(?:languages?|speak(?:s|ing|ers?)?|spoken?)\b",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Hit:
    """A match of a mention with an entity: its kind, and the coverage or likelihood of the name."""

    mention: Mention
    match: Match
    coverage: float = 1.0


def find_hits(
    store: GraphStore,
    question: QuestionWords,
    mentions: list[Mention],
    schema_words: Container[str] = (),
) -> list[tuple[int, Hit]]:
    """Return (entity key, hit) for every entity that ``mentions`` may name.

    ``schema_words``: normalised words of ``question`` that occur in names of the KG's relations.
    """
    exact = _exact(store, mentions, language=bool(_OF_A_LANGUAGE.match(question.text.casefold())))
    exact += _by_id(store, mentions)
    return [*exact, *_partial(store, question, mentions, exact, schema_words)]


def named_entities(store: GraphStore, keys: IntArray) -> Entities | None:
    """Return those of ``keys`` that are named entities, not values or mediators.

    None if there are none.
    """
    if len(keys) == 0:
        return None
    all_of_them = store.entities(keys)
    named = [
        row
        for row, name in enumerate(all_of_them.names)
        if name and all_of_them.kinds[row] == Kind.ENTITY
    ]
    return all_of_them.take(named) if named else None


def _exact(store: GraphStore, mentions: list[Mention], *, language: bool) -> list[tuple[int, Hit]]:
    """Return (entity key, hit) of names and aliases that equal a mention or a variant of one.

    ``language``: the question is about a language, see :func:`kgqa.linking.forms.other_forms`.
    """
    wanted: dict[str, list[tuple[Mention, float | None]]] = {}
    for mention in mentions:
        wanted.setdefault(mention.form, []).append((mention, None))
        for form, likelihood in other_forms(mention.form, language=language).items():
            wanted.setdefault(form, []).append((mention, likelihood))
    forms = list(wanted)
    positions, keys = store.find_names(forms) if forms else (keys_array([]), keys_array([]))
    if len(keys) == 0:
        return []
    distinct, back = np.unique(keys, return_inverse=True)
    normal = [normalise(name or "") for name in store.entities(distinct).names]
    hits: list[tuple[int, Hit]] = []
    for position, key, row in zip(positions.tolist(), keys.tolist(), back.tolist(), strict=True):
        form = forms[position]
        whole: Match = "name" if normal[row] == form else "alias"
        for mention, likely in wanted[form]:
            hits.append(
                (key, Hit(mention, whole) if likely is None else Hit(mention, "form", likely))
            )
    return hits


def _by_id(store: GraphStore, mentions: list[Mention]) -> list[tuple[int, Hit]]:
    """Return (entity key, hit) of ids that the question contains literally: part numbers, codes.

    Only ids with both a letter and a digit, of named entities.
    """
    codes = {
        mention.text: mention
        for mention in mentions
        if any(map(str.isdigit, mention.text)) and any(map(str.isalpha, mention.text))
    }
    if not codes:
        return []
    keys = store.keys_of(list(codes))
    known = [(key, code) for key, code in zip(keys.tolist(), codes, strict=True) if key >= 0]
    named = named_entities(store, keys_array([key for key, _ in known]))
    there = set() if named is None else set(named.keys.tolist())
    return [(key, Hit(codes[code], "name")) for key, code in known if key in there]


def _partial(
    store: GraphStore,
    question: QuestionWords,
    mentions: list[Mention],
    exact: list[tuple[int, Hit]],
    schema_words: Container[str],
) -> list[tuple[int, Hit]]:
    """Return (entity key, hit) of names, also misspelt, for words that no exact hit explains.

    Each name gets its best hit only.
    """
    explained = _explained(store, exact)
    asked = [
        run
        for run in question.content_runs()
        if not any(start <= run.left and run.right <= end for start, end in explained)
    ]
    hits: list[tuple[int, Hit]] = []
    for run in asked[:_SUGGESTIONS]:
        suggested = named_entities(
            store, store.suggest(question.text[run.start : run.end], _SUGGESTED)
        )
        if suggested is None:
            continue
        # Half of an unknown name is somebody else's: "Xyzzy Smith" is not Will Smith.
        inside = [
            mention
            for mention in mentions
            if run.left <= mention.start
            and mention.end <= run.right
            and question.between(max(mention.start, run.start), min(mention.end, run.end))
            > _others(question, run, mention, schema_words)
        ]
        words = [
            mention
            for mention in mentions
            if mention.words == 1 and run.left <= mention.start and mention.end <= run.right
        ]
        for row, name in enumerate(suggested.names):
            form = normalise(name or "")
            best = _best_part(form, inside) or _misspelt(form, words)
            if best is not None:
                hits.append((int(suggested.keys[row]), best))
    return hits


def _others(
    question: QuestionWords, run: ContentRun, mention: Mention, schema_words: Container[str]
) -> int:
    """Return how many words of ``run`` outside ``mention`` may belong to the same name.

    Beside capitalised words, a lower-case one does not ("shows that Nora put together"), nor does a
    word from the KG's relations.
    """
    capital = mention.emphasised and not mention.quoted
    return sum(
        run.start <= word.start < run.end
        and not mention.overlaps(word.start, word.end)
        and not (capital and question.text[word.start].islower())
        and word.form not in schema_words
        for word in question.words
    )


def _explained(store: GraphStore, exact: list[tuple[int, Hit]]) -> list[tuple[int, int]]:
    """Return the spans of mentions that an exact hit explains well enough to search no further.

    A single word that exactly names only a little known entity may be part of a famous name.
    """
    sure = [(key, hit.mention) for key, hit in exact if not hit.mention.common]
    degrees = store.degrees(keys_array([key for key, _ in sure])).tolist() if sure else []
    return [
        (mention.start, mention.end)
        for (_, mention), degree in zip(sure, degrees, strict=True)
        if mention.content > 1 or degree >= _KNOWN
    ]


def _misspelt(form: str, words: Iterable[Mention]) -> Hit | None:
    """Return the hit of the first word that misspells the long one-word name ``form``, or None."""
    alike = (word for word in words if not word.common and is_misspelt(word.form, form))
    return next((Hit(word, "partial", WEIGHTS["one_alike"]) for word in alike), None)


def _best_part(form: str, inside: Iterable[Mention]) -> Hit | None:
    """Return the hit of the first mention that has a part of the name ``form``, else None.

    ``inside``: longest mentions first.
    """
    for mention in inside:
        if (coverage := partial_coverage(mention.form, form)) > 0.0:
            return Hit(mention, "partial", coverage)
    return None
