"""A question's candidate entities, scored, and which of them become its topic entities.

All mentions are looked up by exact name in one call; full text is asked only about words that no
exact name explains, and what it gives is scored here like the rest. What it does not do: use a
model, or follow edges.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.errors import LinkingError
from kgqa.graph.model import Kind, keys_array
from kgqa.graph.names import normalise
from kgqa.linking.forms import other_forms
from kgqa.linking.mentions import Mention, Run, content_runs, mentions, words_of
from kgqa.linking.resolve import one_line
from kgqa.linking.score import MATCH_WEIGHT, Match, Parts, partial_coverage, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kgqa.graph.model import Entities, IntArray
    from kgqa.graph.store import GraphStore

_SUGGESTED = 50  # entities full text is asked for, per run of words
_SUGGESTIONS = 6  # times full text is asked, per question
_EQUAL = 0.95  # share of the best score from which a second mention is as strong
_TOPICS = 3
_KNOWN = 10  # edges from which an entity is the likely meaning of its one-word name
_WHOLE_ENOUGH = 0.4  # share of a name from which a partial mention outdoes a shorter exact one
_MOST_EDGES = 20_000  # edges up to which neighbours are read
_MOST_BESIDE = 64  # entities whose neighbours are read, per question
_GAP = re.compile(r",?\s+")
# About a language, but not asking which: "who speaks German", and not "what language do Germans …".
_OF_A_LANGUAGE = re.compile(
    r"(?!.*\b(?:what|which)\s+languages?\b).*\b(?:languages?|speak(?:s|ing|ers?)?|spoken?)\b",
    re.DOTALL,
)
_LONGEST = 500  # words of a question
_SHOWN = 8  # mentions named in an error


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that a mention of the question may mean.

    ``question[start:end] == mention``. ``score`` is in 0..1 and made of ``parts``. ``match`` says
    how the mention met the entity: its ``name``, an ``alias``, another ``form`` of the mention
    (plural, abbreviation, demonym), or as a ``partial`` name.
    """

    key: int
    id: str
    name: str
    mention: str
    start: int
    end: int
    score: float
    match: Match
    degree: int
    parts: Parts

    @property
    def exact(self) -> bool:
        """Whether the mention as it stands is the entity's name or alias."""
        return self.match in ("name", "alias")


@dataclass(frozen=True, slots=True)
class _Hit:
    mention: Mention
    match: Match
    coverage: float = 1.0


def link(store: GraphStore, question: str, limit: int = 10) -> list[Candidate]:
    """Return up to ``limit`` candidates for the topic of ``question``, best first.

    An entity comes once, with its best mention. Equal scores are ordered by id. Raises
    LinkingError where the question is empty, is a whole document, or has nothing in it that is
    like an entity of the KG.
    """
    if not question.strip():
        raise LinkingError("The question is empty.", "Ask one, in quotes.")
    length = len(words_of(question))
    if length > _LONGEST:
        raise LinkingError(
            f"The question has {length} words; entities are looked for in up to {_LONGEST}.",
            'Shorten it, or name the topic entity yourself: --entity "NAME OR ID".',
        )
    found = mentions(question)
    exact = _exact_hits(store, found, language=bool(_OF_A_LANGUAGE.match(question.casefold())))
    hits = [*exact, *_partial_hits(store, question, found, exact)]
    candidates = _scored(store, question, hits)
    if not candidates:
        raise _nothing_found(store, question, found)
    return candidates[:limit]


def topic_entities(candidates: list[Candidate]) -> list[Candidate]:
    """Return which of ``candidates`` (as :func:`link` gives them) are the topic entities.

    The best one; and the best of another mention only where it is an exact name too, does not
    overlap, says as much, and scores nearly the same: a wrong topic costs more than a missing one.
    """
    if not candidates:
        return []
    best = candidates[0]
    topics = [best]
    for other in candidates[1:]:
        if len(topics) == _TOPICS or other.score < _EQUAL * best.score:
            break
        apart = all(other.end <= topic.start or topic.end <= other.start for topic in topics)
        if apart and best.exact and other.exact and other.parts.length >= best.parts.length:
            topics.append(other)
    return topics


def _exact_hits(
    store: GraphStore, found: list[Mention], *, language: bool
) -> list[tuple[int, _Hit]]:
    """Return (entity key, hit) of every name or alias that is a mention or a form of one."""
    wanted: dict[str, list[tuple[Mention, float | None]]] = {}
    for mention in found:
        wanted.setdefault(mention.form, []).append((mention, None))
        for form, likelihood in other_forms(mention.form, language=language).items():
            wanted.setdefault(form, []).append((mention, likelihood))
    if not wanted:
        return []
    forms = list(wanted)
    positions, keys = store.find_names(forms)
    if len(keys) == 0:
        return []
    distinct, back = np.unique(keys, return_inverse=True)
    names = store.entities(distinct).names
    normal = [normalise(name or "") for name in names]
    hits: list[tuple[int, _Hit]] = []
    for position, key, row in zip(positions.tolist(), keys.tolist(), back.tolist(), strict=True):
        form = forms[position]
        for mention, likely in wanted[form]:
            if likely is None:
                hits.append((key, _Hit(mention, "name" if normal[row] == form else "alias")))
            else:
                hits.append((key, _Hit(mention, "form", likely)))
    return hits


def _partial_hits(
    store: GraphStore, question: str, found: list[Mention], exact: list[tuple[int, _Hit]]
) -> list[tuple[int, _Hit]]:
    """Return hits of names that contain words of the question which no exact name explains."""
    explained = _explained(store, exact)
    asked = [
        run
        for run in content_runs(question)
        if not any(start <= run.left and run.right <= end for start, end in explained)
    ]
    hits: list[tuple[int, _Hit]] = []
    for run in asked[:_SUGGESTIONS]:
        suggested = _entities(store, store.suggest(question[run.start : run.end], _SUGGESTED))
        if suggested is None:
            continue
        # Half of an unknown name is somebody else's: "Xyzzy Smith" is not Will Smith.
        inside = [
            mention
            for mention in found
            if run.left <= mention.start
            and mention.end <= run.right
            and 2 * _shared_words(question, mention, run) > run.words
        ]
        for row, name in enumerate(suggested.names):
            best = _best_part(normalise(name or ""), inside)
            if best is not None:
                hits.append((int(suggested.keys[row]), best))
    return hits


def _explained(store: GraphStore, exact: list[tuple[int, _Hit]]) -> list[tuple[int, int]]:
    """Return the places of mentions that an exact hit explains well enough to look no further.

    A single word that names only a little known entity may be part of a well known one's name.
    """
    sure = [(key, hit.mention) for key, hit in exact if not hit.mention.common]
    degrees = store.degrees(keys_array([key for key, _ in sure])).tolist() if sure else []
    return [
        (mention.start, mention.end)
        for (_, mention), degree in zip(sure, degrees, strict=True)
        if mention.content > 1 or degree >= _KNOWN
    ]


def _shared_words(question: str, mention: Mention, run: Run) -> int:
    """Return how many words of ``run`` are in ``mention``."""
    start, end = max(mention.start, run.start), min(mention.end, run.end)
    return len(words_of(question[start:end])) if start < end else 0


def _best_part(form: str, inside: Iterable[Mention]) -> _Hit | None:
    """Return the longest mention whose words are all in the name ``form``, None if none is."""
    for mention in inside:
        coverage = partial_coverage(mention.form, form)
        if coverage > 0.0:
            return _Hit(mention, "partial", coverage)
    return None


def _entities(store: GraphStore, keys: IntArray) -> Entities | None:
    """Return those of ``keys`` that are named entities, None where none is."""
    if len(keys) == 0:
        return None
    all_of_them = store.entities(keys)
    named = [
        row
        for row, name in enumerate(all_of_them.names)
        if name and all_of_them.kinds[row] == Kind.ENTITY
    ]
    return store.entities(all_of_them.keys[named]) if named else None


def _scored(store: GraphStore, question: str, hits: list[tuple[int, _Hit]]) -> list[Candidate]:
    """Return one candidate for each entity, with its best hit, best first."""
    if not hits:
        return []
    keys = keys_array(sorted({key for key, _ in hits}))
    entities = store.entities(keys)
    degrees = dict(zip(keys.tolist(), store.degrees(keys).tolist(), strict=True))
    rows = {key: row for row, key in enumerate(keys.tolist())}
    names = {
        (hit.mention.start, hit.mention.end, hit.mention.words)
        for _, hit in hits
        if hit.match in ("name", "alias")
        or (hit.match == "partial" and hit.mention.content > 1 and hit.coverage >= _WHOLE_ENOUGH)
    }
    with_neighbour = _beside_neighbours(store, question, hits, degrees)
    best: dict[int, Candidate] = {}
    for key, hit in hits:
        mention = hit.mention
        degree = degrees[key]
        inside = any(
            words > mention.words and start <= mention.start and mention.end <= end
            for start, end, words in names
        )
        parts = parts_of(
            mention,
            hit.match,
            degree,
            coverage=hit.coverage,
            inside=inside,
            context=(key, mention.start) in with_neighbour,
            respelt=mention.emphasised
            and hit.match == "name"
            and entities.names[rows[key]] != mention.text,
        )
        candidate = Candidate(
            key=key,
            id=entities.ids[rows[key]],
            name=entities.label(rows[key]),
            mention=mention.text,
            start=mention.start,
            end=mention.end,
            score=parts.score,
            match=hit.match,
            degree=degree,
            parts=parts,
        )
        if key not in best or _order(candidate) < _order(best[key]):
            best[key] = candidate
    return sorted(best.values(), key=_order)


def _beside_neighbours(
    store: GraphStore, question: str, hits: list[tuple[int, _Hit]], degrees: dict[int, int]
) -> set[tuple[int, int]]:
    """Return the (key, start) of entities whose neighbour is named right after them.

    "Peoria Illinois" means the Peoria that has an edge to Illinois, and rather it than Illinois.
    """
    sure = [(key, hit.mention) for key, hit in hits if hit.match != "partial"]
    sure = [(key, mention) for key, mention in sure if not mention.common]
    after: dict[int, set[int]] = {}
    for key, mention in sure:
        after.setdefault(mention.start, set()).add(key)
    beside: list[tuple[int, int, set[int]]] = []
    for key, mention in sure:
        gap = _GAP.match(question, mention.end)
        following = after.get(gap.end(), set()) - {key} if gap else set()
        if following and degrees[key] <= _MOST_EDGES:
            beside.append((key, mention.start, following))
    if not beside:
        return set()
    keys = keys_array(sorted({key for key, _, _ in beside})[:_MOST_BESIDE])
    edges = store.neighbours(keys, "both")
    touching = set(zip(keys[edges.row].tolist(), edges.target.tolist(), strict=True))
    return {
        (key, start)
        for key, start, following in beside
        if any((key, other) in touching for other in following)
    }


def _order(candidate: Candidate) -> tuple[float, str, float, int, int]:
    weight = MATCH_WEIGHT[candidate.match]
    return (-candidate.score, candidate.id, -weight, candidate.start, candidate.end)


def _nothing_found(store: GraphStore, question: str, found: list[Mention]) -> LinkingError:
    """Return the error that says what was looked for and what is near it."""
    content = " ".join(word.form for word in words_of(question) if not word.common)
    looked = [mention.text for mention in found if not mention.common] or [question]
    shown = ", ".join(f'"{one_line(text)}"' for text in looked[:_SHOWN])
    if len(looked) > _SHOWN:
        shown += f" and {len(looked) - _SHOWN} more"
    near = _entities(store, store.suggest(content, 5)) if content else None
    nearest = ""
    if near is not None:
        nearest = (
            f"The nearest names are {', '.join(near.names[i] or '' for i in range(len(near)))}. "
        )
    return LinkingError(
        f'Nothing in the question is an entity of the KG "{store.info.name}": looked for {shown}.',
        f'{nearest}Name the topic entity yourself: --entity "NAME OR ID".',
    )
