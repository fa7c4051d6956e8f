"""Follow-up questions that depend on earlier ones: "and his children?", "what about Bonn?".

Pronouns and missing topics are filled in from the earlier question's topic entities and answers.
Several readings may be possible; which of them the graph answers decides (:mod:`kgqa.api.qa`).
English. A question that names its own topic and has no pronoun is left as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from kgqa.display import json_text, said_name
from kgqa.errors import LinkingError
from kgqa.graph.quantities import read_value
from kgqa.linking.masking import without_name
from kgqa.understanding.asked import BEST, asks_calculated, asks_whether

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.store import GraphStore

_MOST_READINGS = 3  # each is a question of its own
_FEW_WORDS = 3  # fewer ask for more of the same: "Which books?"
_TURNS_BACK = 2  # turns one of which is asked again, of something else
_MOST_TOGETHER = 20  # answers that "they" may stand for
_START = re.compile(r"^\W*(?:(?:and|but|so|also|ok|okay|then|well)\b[\s,]*)+", re.IGNORECASE)
_ABOUT = re.compile(r"^\W*(?:(?:and|or|but)\s+)?(?:what|how)\s+about\b\s*", re.IGNORECASE)
_LITTLE = r"(?:(?:of|for|in|on|at|by|from|to|with|the|a|an)\s+)*"  # before a fragment's noun
_FRAGMENT = re.compile(rf"^{_LITTLE}(.*?)\W*$", re.IGNORECASE | re.DOTALL)
_ASKING = re.compile(
    r"^\W*(?:(?:in|on|at|by|from|to|of|for|with)\s+)?"
    r"(?:who|whom|whose|what|which|when|where|why|how|is|are|was|were|do|does|did|has|have|had|can"
    r"|could|will|would|name|list|show|give|tell|find)\b",
    re.IGNORECASE,
)
_SUBSET = re.compile(
    r"\b(?P<wh>which|who|what|how many)(?:\s+ones?)?\s+of\s+(?:(?:these|those)\s+ones|them"
    r"|these|those)\b",
    re.IGNORECASE,
)
_POSSESSIVE = re.compile(
    r"\b(?:his|its|their|her(?=\s+(?!and\b|or\b|to\b|in\b|at\b|by\b)\w))\b", re.I
)
_PERSONAL = re.compile(
    r"\b(?:he|she|him|her|they|them|theirs|hers"
    r"|(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bwere )there(?!\s+(?:is|are|was|were)\b))\b",
    re.IGNORECASE,
)
_IT = re.compile(r"(?<!\bis )(?<!\bare )(?<!\bwas )\bit\b", re.IGNORECASE)
_THIS = re.compile(
    r"\b(?:this|that|these|those)\b(?:\s+(?!(?:is|are|was|were|ha(?:s|ve|d))\b)[a-z]+)?",
    re.IGNORECASE,
)
# "the film that plays": no pronoun
_BEFORE_CLAUSE = re.compile(
    r"\b(?:the|an?|which|what|any|some|all)\s+(?:\w+\s+){1,3}(?<!\bdoes )(?<!\bdo )(?<!\bdid )$",
    re.I,
)
_IS_IT = re.compile(r"\b(?:is|are|was|were)\s+(?P<it>it)\b", re.IGNORECASE)
_SUPERLATIVE = re.compile(
    r"(?P<amount>most|fewest|least)|(?:most|least) [a-z]+|[a-z]{2,}est|last|first", re.IGNORECASE
)
_ONLY = re.compile(r"\W*(?:only|just|but only)\b", re.IGNORECASE)
_AMOUNT = re.compile(r"\b(?:most|fewest|least)\b", re.IGNORECASE)
_MOST_SO = re.compile(rf"\b(?:most|least) [a-z]+|{BEST.pattern}|\b(?:first|last)\b", re.IGNORECASE)
_COMPARISON = re.compile(
    r"\b(?:before|after|since|until|over|under|above|below|between|(?:more|less|fewer) than"
    r"|at (?:least|most))\b[^?]*?\d[\w.,]*(?: (?:and|to) \d[\w.,]*)?",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(r"^(\W*how many )(\w+)", re.IGNORECASE)
_ONES = re.compile(
    r"\W*(?:(?:who|which|what) (?:ones )?(?:are|were) (?:they|these|those)|which(?: ones)?"
    r"|(?:list|show|name)(?: me)? (?:them|these|those)(?: all)?)\W*",
    re.IGNORECASE,
)
_NUMBER_OF = re.compile(
    r"\W*how many(?: (?:are|were) (?:there|they|these|those)| (?:is|was) that)?\W*", re.IGNORECASE
)
_KIND_FIRST = re.compile(r"\W*(?:which|what|list|show me|name)(?: all)?(?: the)? ", re.IGNORECASE)
_OTHER = re.compile(r"\b(?:else|other|another|others)\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*(?!\w)")
_WHO = re.compile(r"^\W*(?:who|whom|whose)\b", re.IGNORECASE)
_OF_PEOPLE = frozenset({"he", "she", "him", "her", "his", "hers"})
_OF_THINGS = frozenset({"it", "its"})
_PLURAL = frozenset({"they", "them", "their", "these", "those"})
_KIND = re.compile(r"\b(?:which|what)\s+([a-z]+s|[a-z]+\s+[a-z]+s)\b", re.IGNORECASE)
_LISTED = re.compile(
    r"\W*(?:list|show|name|give)(?: me)?(?: all)?(?: the)? ([a-z]+)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier question as it was read, and the ids of its topic entities and answers.

    Ids may come from an untrusted client: only those that the graph has are used.
    """

    question: str
    topics: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StandaloneQuestion:
    """A question made independent of earlier ones; ``entities`` by id, empty to link it again.

    ``said``: a sentence on what was filled in, or empty. Answers are restricted to the ids
    ``among``, if any, and exclude the ids ``apart``.
    """

    question: str
    entities: tuple[str, ...] = ()
    said: str = ""
    among: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Referent:
    """Entities that a pronoun may refer to, with their names."""

    ids: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        """The names of the entities, separated by commas."""
        return ", ".join(self.names)

    @property
    def said(self) -> str:
        """The names of the entities for display, separated by commas."""
        return ", ".join(map(said_name, self.names))


def readings(store: GraphStore, question: str, turns: Sequence[Turn]) -> list[StandaloneQuestion]:
    """Return the readings of ``question`` after ``turns`` (the latest last), likeliest first.

    At least one; an independent question has one, itself. Turns without a question are skipped, as
    are readings that repeat an earlier question.
    """
    itself = StandaloneQuestion(question)
    turns = [turn for turn in turns if turn.question.strip()]
    if not turns or not question.strip():
        return [itself]
    last = turns[-1]
    text, short = _opened(question)
    several = [turn for turn in reversed(turns) if len(turn.answers) > 1][:2] or [last]
    if last.answers and (put := _recount(text, last)):
        ids = frozenset(_names(store, last.answers))
        return [StandaloneQuestion(put, last.topics, _read_as(put), ids)]
    if (subset := _SUBSET.search(text)) and several[0].answers:
        return [_among(store, text, subset, turn) for turn in several]
    apart = _known(store, turns) if _OTHER.search(text) else frozenset()
    references = (
        _fragment(store, text, turns)
        if short or not _ASKING.match(text)
        else _filled(store, text, turns)
    )
    asked = {turn.question.casefold() for turn in turns}  # nobody asks the same again
    new = (reading for reading in references if reading.question.casefold() not in asked)
    chosen = [
        replace(reading, apart=apart - frozenset(reading.entities))
        for reading in islice(new, _MOST_READINGS)
    ]
    alone = text == question.strip() and _may_stand_alone(store, text)
    return [*([itself] if alone or not chosen else []), *chosen]


def _recount(text: str, last: Turn) -> str:
    """Return the last question, turned to list its entities or to count them.

    "" for other ``text``.

    >>> _recount("How many are there?", Turn("Which books are novels?"))
    'How many books are novels?'
    >>> _recount("Who are they?", Turn("How many staff work in Dublin?"))
    'Which staff work in Dublin?'
    """
    if _ONES.fullmatch(text):
        return _HOW_MANY.sub(lambda found: f"Which {found[2]}", last.question)
    if _NUMBER_OF.fullmatch(text) and (asked := _KIND_FIRST.match(last.question)):
        return f"How many {last.question[asked.end() :]}"
    return ""


def _may_stand_alone(store: GraphStore, text: str) -> bool:
    """Return whether a sentence without a pronoun asks for members of a class of the graph."""
    from kgqa.graph.schema import PropertyGraph
    from kgqa.linking.neighbourhood_features import MOST_CLASSES, name_stems, stems_of

    kind = _LISTED.match(text) or _KIND.search(text)
    if not kind or _pronoun(text) or len(text.split()) < _FEW_WORDS:
        return False
    types = store.schema().types if isinstance(store, PropertyGraph) else ()
    classes = name_stems(type_.name for type_ in types[:MOST_CLASSES])
    return any(stems_of(words) in classes for words in (kind[1], kind[1].split()[-1]))


def leaves_out(question: str) -> bool:
    """Return whether a question leaves something out that only an earlier one says.

    >>> leaves_out("and his children?"), leaves_out("Who runs Bonn?")
    (True, False)
    """
    text, short = _opened(question)
    started = text != question.strip() or not _ASKING.match(text)
    return short or started or bool(_SUBSET.search(text) or _pronoun(text))


def _opened(question: str) -> tuple[str, bool]:
    """Return a question without a leading "and" or "what about", and whether it had the latter."""
    if match := _ABOUT.match(question):
        return question[match.end() :], True
    return _START.sub("", question, count=1).strip(), False


def _fragment(store: GraphStore, text: str, turns: Sequence[Turn]) -> Iterator[StandaloneQuestion]:
    """Yield the readings of a fragment: "his children?", "Bonn?", "the budget?", "2019?".

    Nothing for an empty one, or one about something else.
    """
    last = turns[-1]
    match = _FRAGMENT.match(text)
    words = match[1] if match else text
    if not words:
        return
    if again := _again(text, words, turns):
        put, turn = again
        yield StandaloneQuestion(put, turn.topics, _read_as(put))
    elif pronoun := _pronoun(words):
        yield from _of_pronoun(store, words, pronoun, turns)
    elif named := _named(store, words):
        for turn in reversed(turns[-_TURNS_BACK:]):
            yield from _same_of(store, turn, named, text)
    elif not _is_about(store, words):
        if len(words.split()) == 1 and (many := _HOW_MANY.match(last.question)):
            put = f"{many[1]}{words}{last.question[many.end() :]}"
            yield StandaloneQuestion(put, last.topics, _read_as(put))
        for referent in _referents(store, turns):
            put = f"{_asking(last)} is the {words} of {referent.name}?"
            yield StandaloneQuestion(put, referent.ids, _read_as(put))


def _asking(last: Turn) -> str:
    """Return the question word that asks for an answer like the last one's."""
    return "Who" if _WHO.match(last.question) else "What"


def _again(text: str, words: str, turns: Sequence[Turn]) -> tuple[str, Turn] | None:
    """Return an earlier question with a condition, superlative or number of ``text``, and its turn.

    None if ``text``, whose content are ``words``, is none of these.
    """
    last = turns[-1]
    if _ONLY.match(text):
        return f"{last.question.rstrip(' ?.')} {text.rstrip(' ?.')}?", last
    pattern, put = None, words
    if other := _SUPERLATIVE.fullmatch(words):
        pattern = _AMOUNT if other["amount"] else _MOST_SO
    elif compared := _COMPARISON.fullmatch(text.strip(" ?.!")):
        pattern, put = _COMPARISON, compared[0]
    for turn in reversed(turns):
        if pattern is not None and pattern.search(turn.question):
            return pattern.sub(lambda _: put, turn.question, count=1), turn
    if _NUMBER.fullmatch(words):
        asked, changed = _NUMBER.subn(words, last.question, count=1)
        return asked if changed else f"{last.question.rstrip(' ?.')} in {words}?", last
    return None


def _of_pronoun(
    store: GraphStore, words: str, pronoun: tuple[int, int, bool], turns: Sequence[Turn]
) -> Iterator[StandaloneQuestion]:
    """Yield the readings of a fragment with a pronoun: "his children?", "and from there?".

    Nothing if the pronoun is neither possessive nor alone.
    """
    start, end, possessive = pronoun
    noun = (words[:start] + words[end:]).strip()
    for referent in _referents(store, turns, words[start:end]):
        if possessive:
            put = f"{_asking(turns[-1])} is the {noun} of {referent.name}?"
            yield StandaloneQuestion(put, referent.ids, _said(words[start:end], referent))
        elif not noun:  # the same of that
            yield from _same_of(store, turns[-1], referent)


def _filled(store: GraphStore, text: str, turns: Sequence[Turn]) -> Iterator[StandaloneQuestion]:
    """Yield the readings of a sentence with a pronoun, or without a topic entity.

    Nothing if a name stands before the pronoun; without a pronoun nothing for a count, a yes-or-no
    question, or one with a name.
    """
    if pronoun := _pronoun(text):
        start, end, possessive = pronoun
        if _named(store, text[:start]):  # "who directed Jaws, and where was he born?"
            return
        for referent in _referents(store, turns, text[start:end]):
            name = f"{referent.name}'s" if possessive else referent.name
            put = text[:start] + name + text[end:]
            own = _named(store, text[end:])
            entities = (*referent.ids, *(own.ids if own else ()))
            yield StandaloneQuestion(put, entities, _said(text[start:end], referent))
        return
    if asks_calculated(text) or asks_whether(text) or _is_about(store, text):
        return
    for referent in _referents(store, turns, whole=True):
        said = f"Read as a question about {referent.said}."
        yield StandaloneQuestion(f"{text.rstrip(' ?.')} of {referent.name}?", referent.ids, said)


def _pronoun(text: str) -> tuple[int, int, bool] | None:
    """Return (start, end, whether possessive) of the first pronoun of a question.

    None if there is none.
    """
    rewritten = [
        (match.start(), match.end(), possessive)
        for pattern, possessive in (
            (_POSSESSIVE, True),
            (_PERSONAL, False),
            (_IT, False),
            (_THIS, False),
        )
        if (match := pattern.search(text))
        and not (pattern is _THIS and _BEFORE_CLAUSE.search(text[: match.start()]))
    ]
    if match := _IS_IT.search(text):
        rewritten.append((match.start("it"), match.end("it"), False))
    return min(rewritten, key=lambda span: (span[0], -span[1]), default=None)


def _said(words: str, referent: _Referent) -> str:
    """Return the note that ``words`` of the question were taken as ``referent``."""
    return f'"{words.strip()}" was taken as {referent.said}.'


def _read_as(question: str) -> str:
    """Return the note with the question as it was completed."""
    return f"Read as: {json_text(question)}"


def _same_of(
    store: GraphStore, last: Turn, other: _Referent, added: str = ""
) -> Iterator[StandaloneQuestion]:
    """Yield the last question with ``other`` in place of its topic entities of the same type.

    All topic entities are replaced if none has its type. If the question mentions none and asks for
    a number, ``added`` is appended instead; else nothing is yielded.
    """
    names = _names(store, last.topics)
    alike = [
        name for id_, name in names.items() if _kinds(store, id_) & _kinds(store, other.ids[0])
    ]
    replaced = alike or list(names.values())
    if not replaced:
        from kgqa.linking import linker

        try:
            replaced = [linker.link(store, last.question, 1)[0].mention]
        except LinkingError:
            if asks_calculated(last.question):
                put = f"{last.question.rstrip(' ?.')} {added.rstrip(' ?.')}?"
                yield StandaloneQuestion(put, other.ids, _read_as(put))
            return
    put = without_name(last.question, replaced, other.name)
    kept = [id_ for id_, name in names.items() if name not in replaced]
    if put != last.question:
        yield StandaloneQuestion(put, (*other.ids, *kept), _read_as(put))


def _among(store: GraphStore, text: str, subset: re.Match[str], last: Turn) -> StandaloneQuestion:
    """Return the reading of "which of them …": restricted to the answers of the turn ``last``.

    ``subset``: the match of "which of them" in ``text``.
    """
    kind = _KIND.search(last.question)
    wh = "which" if kind and subset["wh"].lower() != "how many" else subset["wh"]
    put = f"{text[: subset.start()]}{wh} {kind[1] if kind else ''}{text[subset.end() :]}"
    put = re.sub(r"\s+", " ", put).strip()
    named = _named(store, put)
    ids = frozenset(_names(store, last.answers))
    said = f'"{subset[0]}" was taken as the {len(ids)} answers before.'
    return StandaloneQuestion(put, named.ids if named else (), said, ids)


def _referents(
    store: GraphStore, turns: Sequence[Turn], pronoun: str = "", *, whole: bool = False
) -> list[_Referent]:
    """Return the possible referents of a pronoun: the last answers, their topics, earlier ones.

    Answers to "who" are persons: for "he" and "she", not for "it"; answers to "where" are seldom
    "it". Several answers together are "they"; otherwise, and for a ``whole`` sentence without a
    pronoun, the topic comes first. Numbers and dates are never referents.
    """
    pronoun = pronoun.lower()
    ranked: dict[tuple[str, ...], tuple[bool, _Referent]] = {}
    for turn in reversed(turns):
        answers, topics = _names(store, turn.answers), _names(store, turn.topics)
        answers = {id_: name for id_, name in answers.items() if read_value(name) is None}
        people = bool(_WHO.match(turn.question))
        several = len(answers) > 1
        place = pronoun in _OF_THINGS and turn.question.lower().startswith("where")
        later = several or place or whole
        groups: list[tuple[str, ...]] = [
            (topic,) for topic in ([*topics, *answers] if later else [*answers, *topics])
        ]
        if several and pronoun in _PLURAL:
            groups.insert(0, tuple(islice(answers, _MOST_TOGETHER)))
        names = answers | topics
        for ids in groups:
            person = people and ids[0] in answers
            last = (pronoun in _OF_PEOPLE and not person) or (pronoun in _OF_THINGS and person)
            ranked.setdefault(ids, (last, _Referent(ids, tuple(names[id_] for id_ in ids))))
    return [referent for _, referent in sorted(ranked.values(), key=lambda each: each[0])]


def _named(store: GraphStore, text: str) -> _Referent | None:
    """Return the entities that ``text`` names exactly, or sets off as a name.

    None if it names none.
    """
    from kgqa.linking import linker  # with numpy, which the form of a request does not need

    if not text.strip():
        return None
    try:
        chosen = linker.topic_entities(linker.link(store, text))
    except LinkingError:
        return None
    sure = [
        candidate
        for candidate in chosen
        if candidate.match in ("name", "alias")
        or (candidate.features.emphasis > 0.0 and candidate.match == "partial")
    ]
    return (
        _Referent(
            tuple(candidate.id for candidate in sure), tuple(candidate.name for candidate in sure)
        )
        if sure
        else None
    )


def _is_about(store: GraphStore, text: str) -> bool:
    """Return whether ``text`` contains a name, in the graph or not."""
    from kgqa.linking.mentions import QuestionWords

    return bool(QuestionWords(text).names()) or _named(store, text) is not None


def _names(store: GraphStore, ids: Sequence[str]) -> dict[str, str]:
    """Return the names of those ``ids`` that the graph has, by id, in order; others are dropped."""
    keys = store.keys_of(list(ids))
    known = [(id_, key) for id_, key in zip(ids, keys.tolist(), strict=True) if key >= 0]
    if not known:
        return {}
    entities = store.entities(keys[keys >= 0])
    return {id_: entities.label(row) for row, (id_, _) in enumerate(known)}


def _kinds(store: GraphStore, id_: str) -> frozenset[str]:
    """Return the types of an entity, empty if it is not in the graph."""
    keys = store.keys_of([id_])
    return frozenset(store.details(int(keys[0])).types) if keys[0] >= 0 else frozenset()


def _known(store: GraphStore, turns: Sequence[Turn]) -> frozenset[str]:
    """Return the ids of earlier topic entities and answers that the graph has."""
    return frozenset(id_ for turn in turns for id_ in _names(store, (*turn.topics, *turn.answers)))
