"""Scores the candidate entities of a question, and selects its topic entities.

Mentions are looked up (``lookup``), the edges at the likeliest candidates are read (``around``),
and each candidate gets a score made of named features (``score``). No model is used.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgqa.display import said_name
from kgqa.errors import LinkingError
from kgqa.graph.model import keys_array
from kgqa.graph.names import normalise
from kgqa.graph.quantities import read_value
from kgqa.lexicon.english import words as english_words
from kgqa.linking.lookup import find_hits, named_entities
from kgqa.linking.mentions import QuestionWords
from kgqa.linking.neighbourhood_features import (
    class_words,
    look_around,
    property_words,
    schema_words,
    stems_of,
    stems_outside,
)
from kgqa.linking.score import MATCH_WEIGHT, features_of
from kgqa.linking.signs_and_symbols import as_written, is_other_value
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.linking.lookup import Hit
    from kgqa.linking.mentions import Mention
    from kgqa.linking.neighbourhood_features import NeighbourhoodFeatures
    from kgqa.linking.score import Features, Match

WEIGHTS = weights("linking")
_TOPICS = 3
_LONGEST = 500  # words of a question
_MOST_CHARACTERS = 10_000  # of a question; models read each in memory of their own
_PLAIN = frozenset(english_words("plain"))  # of the form of a question
_SHARED = 3  # entities, whose names have a word that may say what they are
_ONE_OF = re.compile(r"\b(?:the|a|an|which|what|every|each|any|our)\s+$", re.IGNORECASE)
_MAX_LISTED_NAMES = 3  # unknown names in an error


_NUMBER_AFTER = re.compile(r",? (?:(?:in|of|from) )?\(?(\d+)(?!\w)")
_SAME_NAMED = 20  # entities of one name whose properties are read


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that a mention in the question may refer to, with its score.

    ``question[start:end] == mention``. ``score``: in 0..1, the sum of the points of its
    ``features``. ``match``: which text the mention matched: the entity's ``name``, an ``alias``, a
    variant ``form`` (plural, abbreviation, demonym), or a part of the name, ``partial``.
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
    features: Features


def may_name(store: GraphStore, text: str) -> bool:
    """Return whether ``text`` may name an entity of the graph, even by a part of its name."""
    try:
        return bool(link(store, text, 1))
    except LinkingError:
        return False


def link(store: GraphStore, question: str, limit: int = 10) -> list[Candidate]:
    """Return up to ``limit`` entities that ``question`` may be about, best first.

    Each entity is returned once, with its best mention. Ties are ordered by id. Raises LinkingError
    if the question is empty, is a whole document, or mentions nothing similar to an entity of the
    KG.
    """
    asked = question_words(question)
    mentions = asked.mentions()
    words = schema_words(store, asked)
    candidates = _scored(store, asked, find_hits(store, asked, mentions, words))
    candidates = [
        candidate
        for candidate in _without_classes(store, question, candidates)
        if not is_other_value(
            as_written(question, candidate.start, candidate.end),
            candidate.name,
            partial=candidate.match == "partial",
        )
    ]
    if not candidates:
        raise _nothing_found(store, asked)
    candidates = _with_number(store, question, _without_columns(store, candidates))
    best = candidates[0]
    if best.match == "partial" and best.mention.islower():
        for (
            start,
            end,
        ) in asked.names():  # "which ships belong to Maersk" is not about a Ship Agency
            if not any(candidate.start < end and start < candidate.end for candidate in candidates):
                raise LinkingError(
                    f'"{question[start:end]}" names nothing in the KG "{store.info.name}".',
                    f"Name the topic entity yourself with `entity`; {said_name(best.name)} is one, "
                    f'by "{best.mention}".',
                )
    return candidates[:limit]


def _with_number(store: GraphStore, question: str, candidates: list[Candidate]) -> list[Candidate]:
    """Move those of equally named candidates to the front that have the number after the mention.

    "The Belgian Grand Prix of 2023" means the one with the year 2023, or with a date in it.
    """
    best = candidates[0]
    number = _NUMBER_AFTER.match(question, best.end)
    same = [
        candidate
        for candidate in candidates
        if (candidate.start, candidate.end, candidate.name) == (best.start, best.end, best.name)
    ]
    if number is None or not 1 < len(same) <= _SAME_NAMED:
        return candidates
    begins = re.compile(rf"{number[1]}(?!\d)")
    fits = [
        candidate
        for candidate in same
        if any(
            begins.match(str(value)) for value in store.details(candidate.key).properties.values()
        )
    ]
    if not 0 < len(fits) < len(same):
        return candidates
    end, keys = number.end(1), {fit.key for fit in fits}
    first = [
        replace(fit, end=end, mention=question[fit.start : end], score=best.score) for fit in fits
    ]
    return first + [candidate for candidate in candidates if candidate.key not in keys]


def _without_columns(store: GraphStore, candidates: list[Candidate]) -> list[Candidate]:
    """Drop lower-case mentions that are the name of a property, if other candidates are left.

    "The melting point of tin" is about tin, although a table describes its columns.
    """
    small = [candidate for candidate in candidates if candidate.mention.islower()]
    if not small or len(small) == len(candidates):
        return candidates
    columns = property_words(store)
    left_out = {candidate.key for candidate in small if stems_of(candidate.mention) in columns}
    return [candidate for candidate in candidates if candidate.key not in left_out]


def _without_classes(store: GraphStore, asked: str, candidates: list[Candidate]) -> list[Candidate]:
    """Drop candidates matched in part only by the noun of their class, or of several names.

    Neither "filings" nor the plural "banks" means one of them, nor does "bank" where a property is
    called so, or the "top" of "top 5". Capitals make a name of it ("Munich Airport" by "Airport"),
    but not of a plural that is only in the question, nor of a row that is called by its class and a
    number ("Filing 223627").

    Those matched by a noun that several names share, after "one of", come last.
    """
    small = [one for one in candidates if one.match == "partial" and _is_noun(one)]
    if not small:  # the schema of a large KG takes a while to read
        return candidates
    classes = class_words(store)
    columns = frozenset[str]().union(*property_words(store))
    plural = Counter(one.start for one in small if not _shares_word(one))
    many = Counter(one.start for one in small)
    left_out = {
        candidate.key
        for candidate in small
        if (said := stems_of(normalise(candidate.mention))) <= classes
        or {*normalise(candidate.mention).split()} <= _PLAIN
        or (not _shares_word(candidate) and plural[candidate.start] >= _SHARED)
        or (said <= columns and many[candidate.start] >= _SHARED)
    }
    kept = [candidate for candidate in candidates if candidate.key not in left_out]
    often = Counter(
        (candidate.start, candidate.end)
        for candidate in kept
        if candidate.name.casefold().endswith(candidate.mention) and candidate.mention[-1:] != "s"
    )

    def is_kind(candidate: Candidate) -> bool:
        """Return whether a partial match is a noun that several names share, after "one of"."""
        shared = often[candidate.start, candidate.end] >= _SHARED and _ONE_OF.search(
            asked[: candidate.start]
        )
        lower = candidate.match == "partial" and candidate.mention.islower()
        return lower and bool(shared)

    return sorted(kept, key=is_kind)


def _is_noun(candidate: Candidate) -> bool:
    """Return whether a mention of a part of a name may be a noun: no capitals, or for many.

    A mention with capitals is one if the name has its words in the singular alone, or only numbers
    beside them.
    """
    said = stems_of(normalise(candidate.mention))
    beside = [word for word in normalise(candidate.name).split() if not stems_of(word) & said]
    numbered = all(word[:1].isdigit() for word in beside)
    return candidate.mention.islower() or numbered or not _shares_word(candidate)


def _shares_word(candidate: Candidate) -> bool:
    """Return whether a name has a word as the mention writes it, not just its singular."""
    return bool({*normalise(candidate.mention).split()} & {*normalise(candidate.name).split()})


def check_question(question: str) -> None:
    """Raise LinkingError if a question is empty or too long to be one."""
    if not question.strip():
        raise LinkingError("The question is empty.", 'Ask one: kgqa ask "Where was … born?"')
    if len(question) > _MOST_CHARACTERS:
        raise LinkingError(
            f"The question has {len(question):,} characters; up to {_MOST_CHARACTERS:,} are read.",
            "Shorten it.",
        )


def question_words(question: str) -> QuestionWords:
    """Return the words of a question. Raises LinkingError if it is empty or far too long."""
    check_question(question)
    asked = QuestionWords(question)
    if len(asked.words) > _LONGEST:
        raise LinkingError(
            f"The question has {len(asked.words):,} words; entities are looked for in up to "
            f"{_LONGEST}.",
            "Shorten it, or name the topic entity yourself with `entity`.",
        )
    return asked


def is_shared(one: Candidate, candidates: Iterable[Candidate]) -> bool:
    """Return whether the mention of ``one`` is as much a part of other candidates' names.

    As "Colorado" is of Colorado Native and of Colorado Kölsch. False for a whole name.
    """
    return one.match == "partial" and any(
        (other.start, other.end, other.match) == (one.start, one.end, "partial")
        and normalise(other.name) != normalise(one.name)
        and other.score >= WEIGHTS["as_much"] * one.score
        for other in candidates
    )


def topic_entities(candidates: list[Candidate], *, two: bool = False) -> list[Candidate]:
    """Select the topic entities among ``candidates``, as :func:`link` returned them.

    They are the best one, and up to two more from other words of the question, which must be
    specific, match well, and score nearly as much. A lower score suffices for words marked as a
    name by capitals, quotes or a number ("order 7"), and for the only entity that the words may
    mean; otherwise a wrong topic costs more than a missing one. ``two``: the question asks whether
    two entities are connected; after the first, the next whole name is the other.
    """
    if not candidates:
        return []
    best = candidates[0]
    topics = [best, *_same_day(best, candidates)]
    meanings = Counter((candidate.start, candidate.end) for candidate in candidates)
    for other in candidates[1:]:
        if len(topics) >= _TOPICS:
            break
        named = other.features.emphasis > 0.0 or _is_numbered(other)
        alone = meanings[other.start, other.end] == 1
        if alone:
            share = WEIGHTS["also_named_alone"] if named else WEIGHTS["also_alone"]
        else:
            share = WEIGHTS["also_named"] if named else WEIGHTS["also"]
        apart = all(other.end <= topic.start or topic.end <= other.start for topic in topics)
        if (
            apart
            and other.features.everyday == 0.0
            and (alone or other.features.match >= WEIGHTS["half_a_name"])
            and other.score >= share * best.score
        ):
            topics.append(other)
    if two and len(topics) == 1:
        topics += [
            other
            for other in candidates[1:]
            if other.match != "partial" and (other.end <= best.start or best.end <= other.start)
        ][:1]
    return topics


def _same_day(best: Candidate, candidates: list[Candidate]) -> list[Candidate]:
    """Return the other dates that a day without a year may mean.

    [] if ``best`` is not such a day.
    """

    def is_date(candidate: Candidate) -> bool:
        """Return whether a candidate is a date matched by a part."""
        value = read_value(candidate.name)
        return candidate.match == "partial" and value is not None and value.days is not None

    said = read_value(best.mention)
    if not is_date(best) or (said is not None and said.days is not None):
        return []
    place = (best.start, best.end)
    return [
        candidate
        for candidate in candidates[1:]
        if (candidate.start, candidate.end) == place and is_date(candidate)
    ]


def _is_numbered(candidate: Candidate) -> bool:
    """Return whether a mention is a whole name made of words and a number."""
    return candidate.match == "name" and bool(re.search(r"[^\W\d].*\d", candidate.mention))


def _scored(
    store: GraphStore,
    question: QuestionWords,
    hits: Sequence[tuple[int, Hit]],
) -> list[Candidate]:
    """Return one scored candidate for each entity, with its best hit, best first."""
    if not hits:
        return []
    keys = keys_array(sorted({key for key, _ in hits}))
    entities = store.entities(keys)
    degrees = dict(zip(keys.tolist(), store.degrees(keys).tolist(), strict=True))
    rows = {key: row for row, key in enumerate(keys.tolist())}
    spans = _spans(hits, degrees)
    candidates = []
    for key, hit in hits:
        row = rows[key]
        mention, degree = hit.mention, degrees[key]
        features = features_of(
            mention,
            hit.match,
            degree,
            coverage=hit.coverage,
            best_known=_best_known(mention, degree, spans),
            inside=_inside(hit, degree, spans),
            spelling=_spelt(question.text, mention, entities.names[row]),
        )
        candidates.append(
            Candidate(
                key=key,
                id=entities.ids[row],
                name=entities.label(row),
                mention=mention.text,
                start=mention.start,
                end=mention.end,
                score=features.score,
                match=hit.match,
                degree=degree,
                features=features,
            )
        )
    likely = [candidate.key for candidate in sorted(candidates, key=_order)]
    around = look_around(store, question, hits, degrees, likely)
    return _best_of_each(_with_edges(question, candidates, around))


def _with_edges(
    question: QuestionWords, candidates: list[Candidate], around: NeighbourhoodFeatures
) -> list[Candidate]:
    """Return ``candidates`` with the features from their edges.

    An entity with too many edges to read gets the best one's: a hub has nearly every relation.
    """
    outside = stems_outside(
        question, {(candidate.start, candidate.end) for candidate in candidates}
    )
    fits = {
        (candidate.key, candidate.start, candidate.end): len(
            outside[candidate.start, candidate.end] & around.stems.get(candidate.key, frozenset())
        )
        for candidate in candidates
    }
    most = max(fits.values(), default=0)
    scored = []
    for candidate in candidates:
        read = candidate.key in around.stems
        fit = (
            fits[candidate.key, candidate.start, candidate.end] / most
            if read and most
            else float(most > 0)
        )
        beside = around.beside.get((candidate.key, candidate.start), 0.0)
        features = replace(candidate.features, beside=beside, type=fit)
        scored.append(replace(candidate, features=features, score=features.score))
    return scored


def _best_of_each(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the best candidate of each entity, best first."""
    best: dict[int, Candidate] = {}
    for candidate in candidates:
        if candidate.key not in best or _order(candidate) < _order(best[candidate.key]):
            best[candidate.key] = candidate
    return sorted(best.values(), key=_order)


@dataclass(frozen=True, slots=True)
class _Span:
    """A span of the question with its number of words and its candidates' highest degree.

    ``named`` counts only entities whose name it is, or most of it.
    """

    start: int
    end: int
    words: int
    most: int
    named: int | None


def _spans(hits: Sequence[tuple[int, Hit]], degrees: dict[int, int]) -> list[_Span]:
    """Return the spans of ``hits`` in the question, each with its highest degrees."""
    met: dict[tuple[int, int, int], list[tuple[int, bool]]] = defaultdict(list)
    for key, hit in hits:
        mention = hit.mention
        whole = (
            hit.match in ("name", "alias")
            or (hit.match == "form" and hit.coverage >= WEIGHTS["likely_form"])
            or (
                hit.match == "partial"
                and mention.content > 1
                and hit.coverage >= WEIGHTS["whole_enough"]
            )
        )
        met[mention.start, mention.end, mention.words].append((degrees[key], whole))
    return [
        _Span(
            *place,
            most=max(degree for degree, _ in there),
            named=max((degree for degree, whole in there if whole), default=None),
        )
        for place, there in met.items()
    ]


def _best_known(mention: Mention, degree: int, spans: Iterable[_Span]) -> float:
    """Return the log-degree relative to that of the best connected candidate of overlapping spans.

    1 if no other one is better connected.
    """
    most = max(
        (span.most for span in spans if mention.overlaps(span.start, span.end)), default=degree
    )
    return math.log1p(degree) / math.log1p(most) if most > degree else 1.0


def _inside(hit: Hit, degree: int, spans: Iterable[_Span]) -> float:
    """Return the penalty, 0 to 1, for a mention inside a longer name.

    It is less if the mention is a name itself and the longer name is far less known: "Ohio" in
    "Governor of Ohio", but not "American" in "American Bulldog".
    """
    mention = hit.mention
    against = 0.0
    for span in spans:
        if span.named is None or span.words <= mention.words:
            continue
        if span.start <= mention.start and mention.end <= span.end:
            if hit.match in ("form", "partial"):
                return 1.0
            known = math.log1p(span.named) / math.log1p(degree) if degree > span.named else 1.0
            against = max(against, known)
    return against


def _spelt(question: str, mention: Mention, name: str | None) -> float:
    """Return how exactly the question spells ``name``: 1 with its own punctuation, 0 if otherwise.

    "Moulin Rouge!" rather means the name with the mark than the one without, which gets a little
    less than 1.
    """
    if not name:
        return 0.0
    if mention.text == name:
        return WEIGHTS["without_marks"]
    lead = name.find(mention.text)
    whole = 0 <= lead <= mention.start and question.startswith(name, mention.start - lead)
    return 1.0 if whole else 0.0


def _order(candidate: Candidate) -> tuple[float, str, float, int, int]:
    """Return the sort key of a candidate: best score first, then id."""
    weight = MATCH_WEIGHT[candidate.match]
    return (-candidate.score, candidate.id, -weight, candidate.start, candidate.end)


def _nothing_found(store: GraphStore, question: QuestionWords) -> LinkingError:
    """Return the LinkingError that lists the unknown names and the nearest names of the KG.

    Words of the schema are not unknown, nor are those of the form of a question.
    """
    known = class_words(store).union(*property_words(store), *map(stems_of, _PLAIN))
    known |= stems_of(" ".join(schema_words(store, question)))
    runs = question.names() or [(run.start, run.end) for run in question.content_runs()]
    looked = [
        question.text[start:end]
        for start, end in runs
        if not stems_of(normalise(question.text[start:end])) <= known
    ]
    if not runs:
        looked = [question.text.strip()]
    shown = " or ".join(map(said_name, dict.fromkeys(looked[:_MAX_LISTED_NAMES])))
    unknown = f": nothing there is called {shown}" if shown else ""
    content = " ".join(word.form for word in question.words if not word.common)
    near = named_entities(store, store.suggest(content, 5)) if content else None
    names = ", ".join(said_name(near.label(row)) for row in range(len(near))) if near else ""
    nearest = f"The nearest names are {names}. " if names else ""
    return LinkingError(
        f'Nothing in the question is an entity of the KG "{store.info.name}"{unknown}.',
        f"{nearest}Name the topic entity yourself with `entity`.",
    )
