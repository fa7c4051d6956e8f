"""Cues of an English question for relation paths: steps, type of answer, direction, kinship.

The kind of thing ("which court …"), a sister and not a brother, and the step before the last one
("where was the director of x born"). An entity's kinds are its types, the nouns in its name, and
the relations that lead to it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.amounts import number_in
from kgqa.graph.model import keys_array
from kgqa.graph.names import normalise
from kgqa.graph.schema import PropertyGraph
from kgqa.graph.store import foresee
from kgqa.lexicon.english import words as english_words
from kgqa.lexicon.vocabulary import FUNCTION, GENDERS
from kgqa.linking.neighbourhood_features import MOST_CLASSES, stems_of
from kgqa.paths.schema import backwards
from kgqa.paths.words import TOPIC, relation_phrase
from kgqa.planning.question_words import is_year, measured, other_measure, turn
from kgqa.understanding.asked import asked_of_one, asks_whether
from kgqa.understanding.direction import answer_is_head, is_surely_verb
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.methods.rank_words import RankWords
    from kgqa.models.path_ranker import PathRanker
    from kgqa.paths.relation_paths import RelationPaths
    from kgqa.paths.schema import Hop

WEIGHTS = weights("methods")
_MOST_READ = 400  # most relation paths whose tails are tested
_TAILS = 3  # tails tested of each
_FEW_WORDS = 60  # most words in their names that may be types
_MOST_OF_TYPE = 100_000  # most entities of a type that is tested
_LEAST = 1e-6  # least probability
_MOST_EDGES = 500  # most edges of a tail whose relations are read

_BEFORE_HEAD = r"(?:(?:is|are|was|were|the|all|other|any)\s+)*"
_HEAD = re.compile(
    rf"\b(?:which|what|name|list|show|how many)\s+{_BEFORE_HEAD}"
    r"(?P<noun>(?:[^\W\d_]+\s+){0,2}?[^\W\d_]+)"
    r"\s+(?:of|on|in|at|for|from|with|that|who|which|to|by|is|are|was|were|do|does|did|has|have|had"
    r"|can|could|will|would|x|took|won|made|led|lie|feed|border|[^\W\d_]+ed|run|runs|use|uses)\b",
    re.IGNORECASE,
)
_BARE = re.compile(  # "nurses on x"
    r"\W*(?:(?:the|all|any)\s+)*(?P<noun>(?:[^\W\d_]+\s+){0,2}?[^\W\d_]+)"
    r"\s+(?:of|on|in|at|for|from|with|by|that|who)\b",
    re.IGNORECASE,
)
_ASKING = re.compile(r"\b(?:who|whom|what|which|where|when|how)\b", re.IGNORECASE)
_NO_VALUE = re.compile(r"\W*(?:where|who|whom|why)\b", re.IGNORECASE)
_NOUN = r"(?P<noun>(?!the\b)[^\W\d_]+)"
_STEP = re.compile(
    rf"\bthe\s+{_NOUN}\s+of\s+(?:the\s+)?{TOPIC}\b(?!['’])|\b{TOPIC}\s?['’]s?\s+"
    rf"{_NOUN.replace('noun', 'own')}\b(?=['’]|\s+(?:[^\W\d_]+ed|born|from|live|work|come|play)\b)",
    re.IGNORECASE,
)
_ROLE = re.compile(
    rf"\b(?:who|what)(?:['’]s|\s+(?:is|are|was|were))\s+the\s+(?P<noun>(?:[^\W\d_]+\s+){{0,2}}?"
    rf"[^\W\d_]+)\s+(?:of|for|at|in)\s+(?:the\s+)?{TOPIC}\W*$",
    re.IGNORECASE,
)
_NO_STEP = stems_of(" ".join(english_words("no_step")))
_LITTLE = _NO_STEP | stems_of(" ".join(english_words("little")))
_ANY = stems_of(" ".join(english_words("anything")))


@dataclass(frozen=True, slots=True)
class Steps:
    """A question in two parts: ``first`` about the topic entity, ``rest`` about its answer.

    ``noun``: the relation of the first part's answer to the topic entity. Both questions have ``x``
    for the entity that they are about.
    """

    noun: str
    first: str
    rest: str


def two_steps(asked: str) -> Steps | None:
    """Split a question, with ``x`` for its topic entity, into two; None if it is a single one.

    First "who is the director of x?", then the rest, with ``x`` for that director.

    >>> two_steps("Where was the director of x born?").rest
    'Where was x born?'
    >>> two_steps("Who is the director of x?") is two_steps("Where is x's office located?") is None
    True
    >>> two_steps("Who is x's line manager?")
    """
    found = _STEP.search(asked)
    if found is None or _ASKING.search(asked, found.end()) or asks_whether(asked):
        return None  # "x's mum here, which rooms …", "is x's record low 3?"
    noun = found["noun"] or found["own"]
    rest = f"{asked[: found.start()]}{TOPIC}{asked[found.end() :]}"
    if stems_of(normalise(noun)) <= _NO_STEP or stems_of(normalise(rest)) <= _LITTLE:
        return None
    return Steps(noun, f"Who or what is the {noun} of {TOPIC}?", rest)


def asked_noun(asked: str) -> str:
    """Return the noun of the answer's type in a question, "" if it has none.

    >>> [asked_noun(one) for one in ("Which maritime court took x?", "Who runs x?", "nurses on x")]
    ['court', '', 'nurses']
    """
    if found := _HEAD.search(asked):
        return normalise(found["noun"]).rpartition(" ")[2]
    words = normalise(found["noun"]).split() if (found := _BARE.match(asked)) else [""]
    return "" if FUNCTION.intersection(words) else words[-1]


def asked_kind(asked: str) -> frozenset[str]:
    """Return the stems of the noun of the answer's type, empty if a question has none."""
    return stems_of(asked_noun(asked))


def which_of_them(asked: str, relations: Sequence[str]) -> str:
    """Rewrite "how many children …" as "which children …" if a relation leads to children.

    ``relations``: in words. Other questions are returned unchanged.

    >>> which_of_them("How many children did x have?", ["children"])
    'Which children did x have?'
    >>> which_of_them("How many crew does x carry?", ["captain"])
    'How many crew does x carry?'
    """
    kind = asked_kind(asked)
    if not any(kind & stems_of(text) for text in relations):
        return asked
    return re.sub(r"^\W*how many\b", "Which", asked, flags=re.IGNORECASE)


def evidence_of(
    score: float, share: NDArray[np.float64], asked: str, relations: Sequence[str]
) -> tuple[float, float, float]:
    """Return an answer's evidence: its log-odds, its lead, and the fraction of words explained.

    ``score``: the answer's probability. The lead is that of the likeliest relation path's ``share``
    over the next, as a logarithm; the fraction, 0 to 1, is of the question's words that the
    ``relations`` of the answer's path have.

    >>> evidence_of(0.5, np.array([0.1, 0.5]), "Who painted x?", ["painted by"])[1:]
    (1.609..., 1.0)
    """
    kept = min(max(score, _LEAST), 1.0 - _LEAST)
    second, first = np.sort(np.append(share, (0.0, 0.0)))[-2:] + _LEAST
    words = stems_of(normalise(asked)) - {TOPIC}
    said = stems_of(normalise(" ".join(map(relation_phrase, relations))))
    odds, lead = math.log(kept / (1.0 - kept)), math.log(first / second)
    return odds, lead, len(words & said) / max(len(words), 1)


def says_a_part(asked: str, words: RankWords, steps: Sequence[Hop]) -> bool:
    """Return whether a relation path answers only a part of a question, or something else.

    It is walked the wrong way, answers the first of two parts, or is of another dimension: "how
    tall".
    """
    said = words.hop(steps[-1])
    step = two_steps(asked)
    first = step is not None and len(steps) == 1 and stems_of(step.noun) <= stems_of(said)
    return first or is_turned(asked, words, steps) or other_measure(asked, said)


def is_other_kind(asked: str, words: RankWords, steps: Sequence[Hop], key: int) -> bool:
    """Return whether the graph has entities of the requested type, and the answer is not one.

    ``key``: of the answer; ``steps``: the relation path to it. A graph with nurses says what a
    receptionist is. Raises GraphError.
    """
    kind = asked_kind(asked) & stems_of(" ".join(words.kinds)) - _LITTLE - _ANY
    said = stems_of(normalise(words.hop(steps[-1])))
    unsaid = bool(kind) and steps[-1][0] % 2 == 0 and not kind & said
    return unsaid and not _fits(words.store, kind, keys_array([key]))[0]


def says_kind(asked: str, text: str) -> bool:
    """Return whether ``text`` has the noun of the answer's type; True if the question has none.

    >>> says_kind("Which court took x?", "x heard in ?"), says_kind("Which thing is x?", "x is ?")
    (False, True)
    """
    kind = asked_kind(asked) - _LITTLE - _ANY
    return not kind or bool(kind & stems_of(normalise(text)))


def adjustment(
    words: RankWords, ranker: PathRanker, asked: str, paths: RelationPaths
) -> NDArray[np.float32]:
    """Return what to add to each relation path's logit, by the answer's type. Raises GraphError."""
    added = np.zeros(len(paths.steps), np.float32)
    added[_other_kin(asked, words, paths.steps)] = -WEIGHTS["other_kin"]
    if _NO_VALUE.match(asked):
        added[[words.is_value(steps[-1]) for steps in paths.steps]] -= WEIGHTS["other_kin"]
    kind = asked_kind(asked)
    if kind and 0 < len(paths.steps) <= _MOST_READ:
        added += WEIGHTS["of_kind"] * _of_kind(words, ranker, asked_noun(asked), paths)
    return added


def next_said(
    asked: str, words: RankWords, every: Sequence[Sequence[Hop]], first: Hop
) -> list[int]:
    """Return the indices of relation paths that continue ``first`` by a fully mentioned relation.

    [] if ``first`` itself is mentioned: "used to treat" of what a brand contains.
    """
    said = _content(asked)
    mine = _content(words.hop(first))
    if mine & said:
        return []
    after = [(at, one[1]) for at, one in enumerate(every) if len(one) == 2 and one[0] == first]
    return [
        at
        for at, hop in after
        if hop[0] % 2 == 0
        and hop[0] // 2 != first[0] // 2  # a relation that its tail is named after
        and (more := _content(words.hop(hop)))
        and more <= said
    ]


def _content(text: str) -> frozenset[str]:
    """Return the stems of a text's content words."""
    return stems_of(" ".join({*normalise(text).split()} - FUNCTION - {TOPIC}))


def turned(asked: str, words: RankWords, every: Sequence[Sequence[Hop]]) -> list[bool]:
    """Return for each relation path whether it runs against the requested direction.

    Where the wording does not decide, only those do that ``every`` has in both directions.
    """
    single = {steps[0] for steps in every if len(steps) == 1}
    return [
        surely_turned(asked, words, steps)
        or (backwards(steps[0]) in single and is_turned(asked, words, steps))
        for steps in every
    ]


def is_turned(asked: str, words: RankWords, steps: Sequence[Hop]) -> bool:
    """Return whether a relation path runs against the direction that the question asks for.

    Where the wording does not decide, :func:`kgqa.planning.question_words.turn` does, but only for
    a relation that entities have in both directions.
    """
    said = said_turned(asked, words, steps)
    if said is not None or len(steps) != 1 or not words.schema.both_ways(steps[0]):
        return bool(said)
    side = turn(asked, words.hop(steps[0]))  # above 0: the answer is the tail
    return side > 0 if steps[0][0] % 2 else side < 0


def said_turned(asked: str, words: RankWords, steps: Sequence[Hop]) -> bool | None:
    """Return whether the wording says that a relation runs the other way, None if it does not say.

    None also for several hops, two different relations, and values.
    """
    step, second = steps[0]
    if len(steps) != 1 or second not in (-1, step) or words.is_value(steps[0]):
        return None
    head = answer_is_head(asked, words.phrases[step // 2])
    return None if head is None else head != bool(step % 2)


def surely_turned(asked: str, words: RankWords, steps: Sequence[Hop]) -> bool:
    """Return whether a relation runs against the requested direction beyond doubt.

    ``steps``: the relation path, of one hop. A plural is spelt like a verb ("hosts"), so that the
    author of a graph may have meant either. The wording decides only if entities have the relation
    in both directions, or it is surely a verb.
    """
    if not said_turned(asked, words, steps):
        return False
    relation = words.phrases[steps[0][0] // 2]
    return words.schema.both_ways(steps[0]) or is_surely_verb(relation)


def says_another(asked: str, words: RankWords, steps: Sequence[Hop]) -> bool:
    """Return whether a question uses another relation of the graph, and none of this path.

    ``steps``: the relation path. "Who leases x?" is not answered by who owns it, if the graph has
    leases.
    """
    own = {words.phrases[step // 2] for hop in steps for step in hop if step >= 0}
    every = {*words.phrases} - own
    if len(every) > _MOST_READ or any(_says(asked, phrase) for phrase in own):
        return False
    return any(_says(asked, phrase) for phrase in every)


def _says(asked: str, relation: str) -> bool:
    """Return whether a question uses a relation as verb or noun with a clear direction."""
    return answer_is_head(asked, relation) is not None


def _other_kin(asked: str, words: RankWords, every: Sequence[Sequence[Hop]]) -> list[bool]:
    """Return which relation paths end in other kin than requested: a brother for a sister.

    A relation walked backwards says nothing about its tail.
    """
    wanted = _kin(asked)
    if not wanted:
        return [False] * len(every)
    named = [_kin(words.hop(steps[-1])) if steps[-1][0] % 2 == 0 else set() for steps in every]
    return [bool(one) and not one & wanted for one in named]


def _kin(text: str) -> set[tuple[str, str]]:
    """Return the kinship words of a text as (gender, beginning of the word)."""
    words = ("father" if word == "dad" else word for word in normalise(text).split())
    return {(GENDERS[word], word[:2]) for word in words if word in GENDERS}


def _of_kind(
    words: RankWords, ranker: PathRanker, noun: str, paths: RelationPaths
) -> NDArray[np.float32]:
    """Return 1 for relation paths that lead mostly to entities called ``noun``, 0 for others.

    All are 0 if none or all do.
    """
    tails = _tails(paths)
    keys = keys_array(sorted({key for each in tails for key in each}))
    fits = _fits(words.store, stems_of(noun), keys)
    if not any(fits):  # perhaps by a synonym, such as a word in several names
        names = words.store.entities(keys).names
        often = Counter(word for name in names for word in {*normalise(name or "").split()})
        more = [word for word, count in often.items() if count > 1 or len(often) <= _FEW_WORDS]
        fits = _fits(words.store, meaning(words, ranker, noun, more), keys)
    of_kind = dict(zip(keys.tolist(), fits, strict=True))
    found = np.array([2 * sum(of_kind[key] for key in each) > len(each) for each in tails])
    return np.zeros(len(tails), np.float32) if found.all() else found.astype(np.float32)


def _tails(paths: RelationPaths) -> list[list[int]]:
    """Return up to ``_TAILS`` entities that each relation path leads to, as keys."""
    tails: list[list[int]] = [[] for _ in paths.steps]
    for place, end in zip(paths.of.tolist(), paths.table.ends().tolist(), strict=True):
        if len(tails[place]) < _TAILS and end not in tails[place]:
            tails[place].append(end)
    return tails


def foresee_kinds(store: GraphStore, asked: str, paths: RelationPaths) -> None:
    """Have an endpoint prefetch the tails' data that :func:`adjustment` reads, if it does."""
    steps = two_steps(asked)
    asks = asked_kind(asked) or (steps is not None and asked_kind(steps.first))
    if asks and len(paths.steps) <= _MOST_READ:
        foresee(store, keys_array(sorted({key for each in _tails(paths) for key in each})), "in")


def meaning(
    words: RankWords, ranker: PathRanker, noun: str, more: Sequence[str] = ()
) -> frozenset[str]:
    """Return the stems of a noun and of its near synonyms in a graph: court, tribunal.

    Synonyms are searched among types, relations' nouns, and ``more`` words.
    """
    every = [kind for kind in dict.fromkeys([*words.kinds, *more]) if kind.isalpha()]
    if not every:
        return stems_of(noun)
    asked = ranker.vectors([f"{TOPIC} is a {noun}"])[0]
    vectors = words.vectors(ranker, [f"{TOPIC} is a {one}" for one in every])
    near = np.flatnonzero(vectors @ asked >= WEIGHTS["same_kind"]).tolist()
    return stems_of(" ".join([noun, *(every[at] for at in near)]))


def other_role(words: RankWords, ranker: PathRanker, asked: str, hop: Hop) -> str:
    """Return the role in "the king of x" if ``hop`` leads to x from entities of other types.

    That authors have the country x makes none of them its king. "" if the role may fit, or the
    question names none.
    """
    store, found = words.store, _ROLE.search(asked)
    if found is None or hop[0] % 2 == 0 or hop[1] >= 0 or not isinstance(store, PropertyGraph):
        return ""
    heads = words.schema.topics((hop[0] ^ 1, -1))
    types = {relation_phrase(name) for key in heads for name in store.details(key).types}
    texts = [f"{TOPIC} is a {one}" for one in (found["noun"], words.hop(hop), *types)]
    vectors = ranker.vectors(texts)
    other = bool(types) and (vectors[1:] @ vectors[0]).max() < WEIGHTS["other_role"]
    return found["noun"] if other else ""


def other_value(
    words: RankWords, encode: Callable[[list[str]], NDArray[np.float32]], asked: str, hop: Hop
) -> str:
    """Return "has no noun" for "the noun of x" if ``hop`` leads to another measure, else "".

    A film's length is not its budget, nor a job its salary. "" also if the two may be the same, or
    neither is a number. ``encode`` returns vectors of texts.
    """
    said = words.hop(hop)
    examples = words.schema.examples(hop)
    numbers = [number_in(one) for one in examples]
    if hop[1] >= 0 or not numbers:
        return ""
    at = f" {asked} ".find(f" {TOPIC}")
    noun = asked_of_one(f"{asked[:at]} {asked[at + 1 :]}", [(at, at + 1)]) if at >= 0 else ""
    if (
        noun in english_words("measures")
        and not stems_of(noun) & stems_of(said)
        and not any(map(_has_digit, examples))
    ):
        return f"has no {noun}"
    if any(one is None or is_year(one) for one in numbers):
        return ""
    first, _, rest = asked.lower().partition(" ")
    adjective, _, rest = rest.partition(" ")
    whole = rest.strip(" ?.!") in (f"is {TOPIC}", f"was {TOPIC}", f"are {TOPIC}")
    how = first == "how" and whole
    noun = adjective if how else noun
    if not noun or measured(noun, said) or stems_of(noun) & stems_of(said):
        return ""
    vectors = encode([noun, said])
    if float(vectors[0] @ vectors[1]) >= WEIGHTS["other_value"]:
        return ""
    return f"has nothing that says how {noun} it is" if how else f"has no {noun}"


def _has_digit(text: str) -> bool:
    """Return whether a text has a digit."""
    return any(map(str.isdigit, text))


@lru_cache(16)
def _last_stems(relations: tuple[str, ...]) -> list[frozenset[str]]:
    """Return the stems of each relation's last word."""
    return [stems_of(relation_phrase(name).split()[-1]) for name in relations]


def _fits(store: GraphStore, kind: frozenset[str], keys: IntArray) -> list[bool]:
    """Return which entities are of a type: by their name, class, or a relation to them.

    ``kind``: stems of words for the type.
    """
    foresee(store, keys, "in")
    names = store.entities(keys).names
    fits = [bool(kind & stems_of(normalise(name or ""))) for name in names]
    few = np.flatnonzero((store.degrees(keys) <= _MOST_EDGES) & ~np.array(fits, bool))
    relations = _last_stems(tuple(store.relations().names))
    into = store.neighbours(keys[few], "in")
    relation = into.step // 2
    says = [one for one in np.unique(relation).tolist() if kind & relations[one]]
    for row in few[into.row[np.isin(relation, says)]].tolist():
        fits[row] = True
    if isinstance(store, PropertyGraph) and len(types := store.schema().types) <= MOST_CLASSES:
        for one in types:
            if one.count <= _MOST_OF_TYPE and kind & stems_of(relation_phrase(one.name)):
                among = np.isin(keys, store.instances(one.name)).tolist()
                fits = [one or other for one, other in zip(fits, among, strict=True)]
    return fits
