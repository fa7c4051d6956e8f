"""What the words of an English question say about its plan: order, direction, class, measure.

Which names of a schema it mentions and where, what its superlative is worth for a property, which
side of a relation it asks for, and what no plan can say.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kgqa.lexicon.english import words as english_words
from kgqa.lexicon.lemmas import stem, verb
from kgqa.paths.words import relation_phrase
from kgqa.queries.sentence import PAST_VERBS
from kgqa.understanding.asked import asks_best, has_lasted, took_time, without_how
from kgqa.understanding.literals import short_year
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.graph.schema import Property

WEIGHTS = weights("planning")
NO = re.compile(
    r"\b(no|not|without|never|nobody|no one|nothing|nowhere|missing|lack\w*|none|non|neither"
    r"|except|excluding)\b|n't\b",
    re.I,
)
EACH = re.compile(r"\b(each|every|per|by|respective\w*)\b", re.I)
EXTREME = re.compile(r"\b(?:max|min)(?:imum)?\b", re.I)
AVERAGE = re.compile(r"\b(?:average|mean)\b", re.I)
AVERAGED = re.compile(  # what is compared with an average
    r"\b(?:above|below|over|under|exceed\w*|than)(?: or equal to)?[ -]"
    r"(?:(?:the|an?|its|their|overall) )*(?:average|mean)\b(?P<counts> (?:number|count)s?\b)?",
    re.IGNORECASE,
)
TOTAL = re.compile(
    r"\b(?:total|combined|sum of|altogether|all together|add up to|together)\b", re.I
)

# what the language of plans has no word for
_UNSAYABLE = re.compile(
    r"\b(?:divisible|multiples? of|same (?:first|last) (?:letter|word|name)|median|percentage"
    r"|standard deviation|ratio|correlation|shortest path|same (?:decade|year|month|day)"
    r"|percent|proportion|variance|difference between|(?:closest|nearest) to"
    r"|within \d[\d.,]* ?(?:km|kilomet\w+|miles?)|(?:even|odd|prime) numbers?|consecutive)\b",
    re.IGNORECASE,
)
_OF_COUNTS = re.compile(
    r"\baverage (?:number|count) of (\w+)\b.*?"
    r"\b(?:per|each|every|for|among|across|does|do|did|has|have)\b"
    r"|\bhow many (\w+)\b.*\bon average\b",
    re.IGNORECASE,
)


def unsayable(question: str, known: Sequence[str]) -> str:
    """Return the phrase of a question that no plan can express, such as "percentage"; else "".

    ``known``: the schema in words; a phrase that is a property there needs no calculation.

    >>> unsayable("What percentage of films won?", ["text film : name"])
    'percentage'
    >>> unsayable("How many films does a studio make on average?", ["class film"])
    'How many films does a studio make on average'
    """
    words = {word for text in known for word in text.split()}
    compared = AVERAGED.search(question)
    match = compared if compared and compared["counts"] else _UNSAYABLE.search(question)
    last = match.group().lower().split()[-1].replace("percentage", "percent") if match else ""
    if match and last not in {word.replace("percentage", "percent") for word in words}:
        return match.group()
    match = _OF_COUNTS.search(question)
    noun = stem((match[1] or match[2]).lower()) if match else ""
    numbers = (text.partition(" : ")[2] for text in known if text.startswith("number "))
    return match.group() if match and not any(_counts(name, noun) for name in numbers) else ""


def _counts(name: str, noun: str) -> bool:
    """Return whether a number's name, in words, says how many of a ``noun``'s things there are.

    >>> [_counts(name, "vote") for name in ("imdb votes", "vote count", "units on vote")]
    [True, True, False]
    """
    words = [stem(word) for word in name.split()]
    head = next((at for at, word in enumerate(words) if word in _PREPOSITIONS), len(words))
    last = words[head - 1] if head else ""
    return last == noun or (noun in words[:head] and last in _QUANTITIES)


COMPARED = {
    "<": re.compile(r"less|lower|fewer|smaller|earlier|before|below|under|younger|shorter"),
    ">": re.compile(
        r"more|greater|higher|larger|later|after|above|over|exceed|older|longer|bigger"
    ),
}


def stems(name: str) -> list[str]:
    """Return the stemmed words of a name.

    >>> stems("ShipCities")
    ['ship', 'city']
    """
    return list(_stems(name))


@lru_cache(65_536)
def _stems(name: str) -> tuple[str, ...]:
    """Return the stemmed words of a name."""
    return tuple(stem(word) for word in relation_phrase(name).split())


_ORDINALS = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_CAME = r"(?:finish|came|come|placed?|rank)\w*(?: in)?"
_WON = re.compile(rf"\b(?:{_CAME} (first|{'|'.join(_ORDINALS)})|w[io]n(?:s|ner\w*)?)\b", re.I)
ALIVE = re.compile(r"\b(?:alive|living)\b", re.I)
DEAD = re.compile(r"\b(?:dead|deceased|(?:has|have|had) died)\b", re.I)
DEATH = re.compile(r"death|died|deceased", re.I)
PLACE = re.compile(r"(?<![a-z])(?:position|pos|place|rank|standing)(?![a-z])", re.IGNORECASE)
_ORDINAL = re.compile(
    rf"\b(?:({'|'.join(_ORDINALS)})|(\d{{1,2}})(?:nd|rd|th))[ -](?:\w{{2,}}est|most|least)\b",
    re.IGNORECASE,
)
MOST = re.compile(r"most|fewest|least")
_EACH = re.compile(r"each|every|per|respective\w*")
PARTICIPLE = re.compile(
    r"\w+(?:ed|en|wn|ght|ung)|made|led|won|put|run|read|sort|order|group|paid|sold|held|built|sent|kept|left|spent|lent|born|done"
)
DATE_PART = re.compile(
    r"\b(?:(?:per|by|each|every|which|what) (day|month|quarter|year)|(month|quarter|year)ly"
    r"|(annual)ly)\b",
    re.IGNORECASE,
)
FREQUENT = re.compile(r"\b(?:frequently|often|commonly|most common|most popular)\b", re.I)
ORDERED = re.compile(  # all of them, in an order
    r"\b(?:(?:(?:order|sort|rank)(?:ed)?|arranged?)(?: \w+)? by"
    r"|in (?:\w+ )?\w+cending|alphabetical(?:ly)?|from (?:the )?\w+est to"
    r"|in order from (?:the )?\w+est|\w+est first)\b",
    re.IGNORECASE,
)
REVENUE = re.compile(r"\b(?:revenues?|turnover|sales|spent|spend|income|earn(?:ed|ings)?)\b", re.I)
_SUPERLATIVE = re.compile(
    r"most|least|fewest|best|worst|(?!(?:inter|for|requ|sugg|gu|t)est)\w{3,}est|top|maximum|minimum|max|min"
)
_SMALL = english_words("in_names")
_PREPOSITIONS = english_words("prepositions")
_QUANTITIES = english_words("quantities")
_NUMBERS = english_words("numbers")
_NOUN_OF_VERB = re.compile(r"(\w{4,}[ts])u(?:re)|(\w{5,})(?:ance|ence)")
_JOINING = english_words("joining")
_RANKS = english_words("ranks")


_WORD = re.compile(r"[^\W_a-z]{2,}(?![a-z])|[^\W_A-Z]+|[A-Z][^\W_A-Z]*")  # camelCase, too


class Mentions:
    """Where a question mentions the names of a schema, as positions of its words."""

    def __init__(self, question: str) -> None:
        self._question = question
        found = list(_WORD.finditer(question))
        self.words = [stem(one.group().lower()) for one in found]
        self._starts = [one.start() for one in found]
        self._known: dict[object, Any] = {}

    def at(self, position: int) -> int:
        """Return the index of the word at a character of the question, or of the one before it."""
        return sum(start <= position for start in self._starts) - 1

    def before(self, word: int) -> list[int]:
        """Return the indices of the words before ``word`` that join no name to its value."""
        return [at for at in range(word) if self.words[at] not in _JOINING]

    def last_before(self, word: int) -> int:
        """Return the last of the words before ``word``; -1 if there are none."""
        return max(self.before(word), default=-1)

    def start_of(self, word: int) -> int:
        """Return the character at which a word begins."""
        return self._starts[word]

    def of(self, name: str, owner: str = "") -> list[int]:
        """Return the positions of the words that mention a name, [] if none does.

        ``owner``: the class or relation of a property, whose own words are ignored.

        >>> Mentions("Movies that were released after 1990").of("releaseDate")
        [3]
        """
        if (name, owner) not in self._known:
            self._known[name, owner] = self._found(name, owner)
        return self._known[name, owner]  # type: ignore[no-any-return]

    def share(self, name: str, owner: str = "") -> float:
        """Return the fraction, 0 to 1, of a name's words that the question contains.

        ``owner``: as for :meth:`of`.

        >>> Mentions("Streams by their view count").share("total_view_count")
        0.6666666666666666
        >>> Mentions("Cars by horsepower").share("horsepower")
        1.0
        """
        if self._as_it_is(name):
            return 1.0
        words = relation_phrase(name).split()
        return sum(bool(self.of(word, owner)) for word in words) / max(1, len(words))

    def _found(self, name: str, owner: str) -> list[int]:
        """Return the positions of the words that mention a name; not remembered."""
        said = relation_phrase(name).split()
        if places := self._as_it_is(name):  # no other is meant
            return places
        roots = {_root(word) for word in said}
        roots = {root for root in roots if len(root) > 1 and root not in _SMALL}
        little = {"in", "on", "is", *(_root(word) for word in relation_phrase(owner).split())}
        own = roots - little
        roots = own or roots
        verbs = {verb(word) for word in said if _root(word) in roots and len(word) > 2}
        years = {root for root in roots if len(root) == 2 and root.isdigit()}  # 85 of 1985
        owned = set() if own else self.whole(owner)

        def says(word: str) -> bool:
            """Return whether a word mentions the name."""
            if _begins(word, roots) or verb(word) in verbs:
                return True
            return measured(word, name) or short_year(word) in years

        return [at for at, word in enumerate(self.words) if says(word) and at not in owned]

    def whole(self, name: str) -> set[int]:
        """Return the positions where all words of a name of several words follow one another.

        >>> Mentions("Loans whose bank's country is Malta").whole("bankCountry") == {2, 4}
        True
        """
        roots = [_root(word) for word in relation_phrase(name).split()]
        places = [at for at, word in enumerate(self.words) if word != "s"]  # "the bank's country"
        if len(roots) < 2:
            return set()
        return {
            at
            for start in range(len(places) - len(roots) + 1)
            for some in [places[start : start + len(roots)]]
            if all(_begins(self.words[at], {root}) for at, root in zip(some, roots, strict=True))
            for at in some
        }

    def _as_it_is(self, name: str) -> list[int]:
        """Return the positions at which a name of several words is spelt as in the schema."""
        if name not in self._known:
            joined = name.isalpha() and " " in relation_phrase(name)
            several = joined or re.search(r"[A-Z\d_]", name[1:])
            pattern = rf"\b{re.escape(name)}\b"
            found = re.finditer(pattern, self._question, re.IGNORECASE) if several else ()
            self._known[name] = [self.at(one.end() - 1) for one in found]
        return self._known[name]  # type: ignore[no-any-return]

    def after(self, before: re.Pattern[str], most: int = 4) -> set[int]:
        """Return the positions up to ``most`` words after a word that ``before`` matches."""
        if (before, most) not in self._known:
            self._known[before, most] = {
                at + far
                for at, word in enumerate(self.words)
                if before.fullmatch(word)
                for far in range(1, most + 1)
            }
        return self._known[before, most]  # type: ignore[no-any-return]

    @cached_property
    def of_each(self) -> set[int]:
        """The positions of the words that name a group: per branch, by country."""
        by = {
            at + far
            for at, word in enumerate(self.words)
            if word == "by"
            and at
            and not asks_order(self.words)
            and not PARTICIPLE.fullmatch(self.words[at - 1])
            for far in (1, 2)
        }
        rates = {at + 1 for at, word in enumerate(self.words) if word in ("mile", "kilometer")}
        return by | {at for at in self.after(_EACH, 2) if not rates & {at - 1, at - 2}}

    @cached_property
    def of_best(self) -> set[int]:
        """The positions of the words that a superlative, or an order "by", may be about."""
        by = re.compile(r"by|term|based|according")
        few = {  # "the top 5 town halls" are ordered by something else
            at + far
            for at, (word, number) in enumerate(pairwise(self.words))
            if word in ("top", "best", "worst") and (number.isdigit() or number in _NUMBERS)
            for far in (1, 2, 3)
        }
        best = {
            at + far
            for at, word in enumerate(self.words)
            if _SUPERLATIVE.fullmatch(word) and at + 1 not in few
            if self.words[at - 1 : at] != ["at"]  # "at most 3"
            for far in (1, 2, 3)
        }
        return best | (self.after(by, 4) if asks_order(self.words) else set())


_PLAIN = frozenset(map(stem, english_words("plain")))


def blanked(question: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a question with the characters in ``spans`` replaced by spaces."""
    for start, end in spans:
        question = question[:start] + " " * (end - start) + question[end:]
    return question


def unexplained(question: str, names: Iterable[str]) -> list[str]:
    """Return the content words of a question, as stems, that none of ``names`` contains.

    >>> unexplained("Which halls seat most guests?", ["Hall", "seats"])
    ['guest']
    """
    names = list(names)
    phrases = [relation_phrase(name) for name in names]
    roots = {_root(word) for phrase in phrases for word in phrase.split()}
    bare = re.sub(r"(?<!\w)(?:'[^']*'|\"[^\"]*\")", "", question)
    for phrase in phrases:  # the opposite: "out of print" of "in print"
        bare = bare.replace(f"out of {phrase[3:]}", phrase) if phrase[:3] == "in " else bare
    bare = re.sub(r"n['’]t\b", " not", bare)
    words = [stem(word.lower()) for word in re.findall(r"[A-Za-z]{3,}", bare)]
    return [
        word
        for word in words
        if word not in _PLAIN
        and not any(measured(word, name) for name in names)
        and not _begins(word, {root for root in roots if len(root) > 1})
        and not any(len(root) > 3 and root[:4] == word[:4] for root in roots)
    ]


_LINKING = frozenset(map(stem, english_words("relating")))


def lost(words: Iterable[str]) -> set[str]:
    """Return the set of ``words`` without those that only link others, such as "associated".

    >>> sorted(lost(["associated", "same", "community"]))
    ['community', 'same']
    """
    return {*words} - _LINKING


_MEASURED = re.compile(
    r"\b(total|combined|average|mean|sum of|number of|most|fewest|highest|lowest|greatest|largest"
    r"|in terms of|based on|by)"
    r" (?:(?:the|their|its|total|average|combined|number of) )*([a-z]{3,})",
    re.IGNORECASE,
)


def measures(question: str) -> list[str]:
    """Return the nouns of which a question asks for the sum, average or most, and orders "by".

    >>> measures("The top 5 films by vote count"), measures("Most read books directed by women")
    (['vote'], [])
    """
    ordered = asks_order(re.findall(r"[a-z]+", question.lower()))
    found = []
    for match in _MEASURED.finditer(question):
        before = re.findall(r"\w+", question[: match.start()].lower())[-1:]
        sign, noun = match[1].lower(), match[2].lower()
        loose = sign == "by" and (not ordered or any(map(PARTICIPLE.fullmatch, before)))
        adjective = sign in ("most", "fewest") and not re.match(r".*[^s]s$", noun)
        adjective = adjective or noun == "times"  # as often as that
        if not (loose or adjective or PARTICIPLE.fullmatch(noun) or noun.endswith("ing")):
            found.append(noun)
    return found


def ranks_by_nothing(question: str) -> bool:
    """Return whether a question asks for the top few without a criterion.

    >>> ranks_by_nothing("The top 5 films of 1999"), ranks_by_nothing("The top 5 films by length")
    (True, False)
    """
    words = re.findall(r"[a-z]+", question.lower())
    rest = [word for word in words if word != "top"]
    pairs = zip(["", *words], words, strict=False)
    by = any(one == "by" and not PARTICIPLE.fullmatch(before) for before, one in pairs)
    return "top" in words and not (by or asks_order(rest) or {"based", "terms"} & {*words})


def asks_order(words: Sequence[str]) -> bool:
    """Return whether a word asks for an order."""
    orders = re.compile(rf"{_SUPERLATIVE.pattern}|sort\w*|order\w*|rank\w*|highest|lowest")
    pairs = zip(["", *words], words, strict=False)
    return any(orders.fullmatch(word) and before != "at" for before, word in pairs)


def _root(word: str) -> str:
    """Return a word's stem, cut by two letters if it is long, or to its verb: of departure."""
    word = stem(word)
    if match := _NOUN_OF_VERB.fullmatch(word):
        return match[1] or match[2]
    return word if len(word) <= 5 else word[:-2]


def _begins(word: str, roots: set[str]) -> bool:
    """Return whether a word is one of the roots or begins with a long one."""
    return any(word == root or (len(root) > 3 and word.startswith(root)) for root in roots)


def asks_one(question: str) -> bool:
    """Return whether a question asks for a single entity, judging by its first noun.

    >>> asks_one("Which doctor was hired first?"), asks_one("Which doctors are the oldest?")
    (True, False)
    >>> asks_one("cheapest flat?"), asks_one("How big is the biggest flat?")
    (True, True)
    """
    question = without_how(question)
    first, _, rest = question.lower().strip().removeprefix("the ").partition(" ")
    if first == "first" or _SUPERLATIVE.fullmatch(first):
        question = f"which {rest}"
    match = re.match(r"\W*(?:which|what) (\w+)\b(?! of)|\W*who\b(?! are\b)", question, re.I)
    many = r"(?!(?:is|was|has|does)$)(?:.*[^s]s|are|were)"
    return match is not None and not re.fullmatch(many, match[1] or "", re.I)


_IRREGULAR = {
    "source": "depart",
    "origin": "depart",
    "dest": "arriv",
    "destination": "arriv",
}


def says(words: Sequence[str], relation: str) -> bool:
    """Return whether any of ``words`` shares a stem with a relation's name: acted, actors."""
    verbs = [verb(one) for one in words]
    for word in relation_phrase(relation).split():
        form = verb(word)
        if len(word) > 2 and word not in _SMALL and form in verbs:
            return True
        noun = form[:-1] if len(form) > 4 else f"{form.removesuffix('e')}er"  # writing, buyer
        if form != word and any(one.startswith(noun) for one in words):
            return True
        root = word[: max(3, len(word) - 3)] if len(word) > 4 else word
        starts = tuple(one for one in (root, _IRREGULAR.get(word, "")) if one)
        if len(word) > 3 and any(one.startswith(starts) for one in words):
            return True
        if len(word) == 3 and word not in _SMALL and word in map(stem, words):
            return True
    return False


def says_all(question: str, phrase: str) -> bool:
    """Return whether a question has all words of a phrase, in any number.

    >>> says_all("Who are the managers of sales?", "manager"), says_all("Who is she?", "manager")
    (True, False)
    """
    return {*stems(phrase)} <= {stem(one) for one in re.findall(r"[a-z]+", question.lower())}


_COUNTS = r"\b(?:most|fewest|number|count|many|more|least|have|has|having|with|whose)\b"


def turn(question: str, relation: str) -> float:
    """Return the log-odds that the answer is the tail of a relation within one class; 0 if unclear.

    "Who follows x" asks for the head, "whom does x follow" and "the most followers" for the tail.
    Of "has subsidiary" the noun is the tail, of "member of" the head; "made by" is reversed.

    >>> turn("Who follows Ann?", "FOLLOWS") < 0 < turn("Whom does Ann follow?", "FOLLOWS")
    True
    >>> turn("Which firms are subsidiaries of Orkla?", "HAS_SUBSIDIARY") > 0
    True
    """
    phrase = relation_phrase(relation)
    word = max(phrase.split(), key=len)
    start = word[: max(3, len(word) - 2)]
    root = re.escape(start)
    agent_noun = bool(re.search(r"\w(?:er|or)(?: of)?$", phrase))  # line manager, auditor of
    agent = re.search(rf"\b{root}\w*(?:er|or)s?\b", question, re.IGNORECASE)
    noun_side = _noun_side(phrase, agent_noun=agent_noun)
    if noun_side and start in question.lower() and (agent or not agent_noun):
        return _turn_of_noun(question, start, noun_side)
    turned = not phrase.endswith(" of") if agent_noun else phrase.endswith(" by")
    side = -1.0 if turned else 1.0  # above 0: what it is done to is at the tail
    if agent:
        counted = re.search(_COUNTS, question[: agent.start()], re.IGNORECASE)
        asked = (counted and not _is_held(question, root)) or _ends_in_of(question, root)
        return WEIGHTS["direction_clear"] * side * (1 if asked else -1)
    does = r"(?:does|do|did|(?:has|have|had) (?!been\b)\w+)"  # "has x audited", not "has audited x"
    if re.search(rf"\b{does}\b.*\b{root}|\b{root}\w*ed by \w", question, re.IGNORECASE):
        return WEIGHTS["direction_clear"] * side
    said = re.search(rf"\b{root}", question, re.IGNORECASE)
    return -WEIGHTS["direction_likely"] * side if said else 0.0


def _noun_side(phrase: str, *, agent_noun: bool) -> float:
    """Return 1 if a relation is called by a noun for its tail, -1 for its head, 0 if by a verb."""
    if phrase.endswith(" of"):
        return -1.0
    verb = " " in phrase or re.search(r"(?:s|ed|ing)$", phrase) or phrase in PAST_VERBS
    return 1.0 if phrase.startswith("has ") or agent_noun or not verb else 0.0


def _turn_of_noun(question: str, start: str, side: float) -> float:
    """Return the log-odds of :func:`turn` for a relation called by a noun, which has a ``side``.

    ``start``: how the noun begins.
    """
    root, before = re.escape(start), question.lower().partition(start)[0]
    asked = rf"\b(?:does|do|did)\b.*\b{root}or\W*$"
    if _ends_in_of(question, root) or re.search(asked, question, re.IGNORECASE):
        return -WEIGHTS["direction_clear"] * side
    if _is_held(question, root):
        return WEIGHTS["direction_clear"] * side
    if re.search(_COUNTS, before, re.IGNORECASE) and not FREQUENT.search(before):
        return -WEIGHTS["direction_clear"] * side
    return WEIGHTS["direction_likely"] * side if side > 0 else 0.0


def _ends_in_of(question: str, root: str) -> bool:
    """Return whether a question ends in a noun and "of": "which firm is x auditor of?"."""
    return bool(re.search(rf"\b{root}\w* of\W*$", question, re.IGNORECASE))


def _is_held(question: str, root: str) -> bool:
    """Return whether a question names the one who has a noun: "auditors of x", "x's auditor"."""
    held = rf"\b{root}\w* of\b|['’]s? (?:\w+ ){{0,2}}{root}"
    return bool(re.search(held, question, re.IGNORECASE))


def place_won(question: str) -> int:
    """Return the rank that a question about placings asks for (1 for winners), 0 for others.

    >>> place_won("Who won in Monza?"), place_won("Who finished third?"), place_won("Who ran?")
    (1, 3, 0)
    """
    match = _WON.search(question)
    if match is None:
        return 0
    said = (match[1] or "first").lower()
    return 1 if said == "first" else _ORDINALS.index(said) + 2


_OF_WHAT = (
    (
        "long|short|length",
        "duration length millisecond second minute min hour runtime running run page distance",
    ),
    ("long|short", "time"), ("age", "age"),
    ("short|tall|high", "height"), ("tall|high|low", "elevation altitude"),
    ("heav|light|weigh", "weight mass"),
    ("larg|big|bigg|small", "size area capacity population amount"),
    ("cheap|expensive|dear|cost|worth|valuable", " ".join(english_words("prices"))),
    ("paid|pay|earn|money", "salary wage pay income amount"),
    ("fast|slow", "speed"), ("powerful|horsepower", "hp horsepower power"),
    ("rich|wealth", "wealth worth income"), ("strong", "alcohol strength"),
    ("deep|shallow", "depth"), ("wid|narrow", "width"), ("hot|hott|warm|cold", "temperature"),
    ("northernmost|southernmost", "latitude"), ("easternmost|westernmost", "longitude"),
    ("populous|inhabitant|resident", "population"), ("(?:holds?|seats?) the most", "capacity seat"),
)  # fmt: skip
_FORM = r"(?:e|y|i?er|i?est|s|ed)?"


def ordinal(question: str) -> int:
    """Return the position in an order that a question asks for; 1 if it names none.

    >>> ordinal("What is the second longest river?"), ordinal("The 3rd most visited city?")
    (2, 3)
    >>> ordinal("Which river is the longest?")
    1
    """
    match = _ORDINAL.search(question)
    if match is None:
        return 1
    return _ORDINALS.index(match[1].lower()) + 2 if match[1] else max(1, int(match[2]))


@lru_cache(8192)
def measured(question: str, name: str) -> bool:
    """Return whether an adjective or verb of the question fits a property's dimension.

    >>> measured("What was the longest visit?", "duration_minutes"), measured("The tallest?", "age")
    (True, False)
    """
    words = {*stems(name)}
    since = has_lasted(question)  # the longest is not the one of the greatest length then
    return any(
        words & {*nouns.split()}
        and re.search(rf"\b(?:{roots}){_FORM}\b", question, re.I)
        and not (since and roots.startswith("long"))
        for roots, nouns in _OF_WHAT
    )


def other_measure(question: str, name: str) -> bool:
    """Return whether "how" in a question asks for another dimension than the property's.

    >>> other_measure("How tall is x?", "age"), other_measure("How heavy is x?", "mass")
    (True, False)
    """
    how = re.search(r"\bhow\s+\w+", question, re.IGNORECASE)
    every = {noun for _, nouns in _OF_WHAT for noun in nouns.split()}
    asked = {noun for noun in every if how and measured(how[0], noun)}
    words = {*stems(name)} & every
    return bool(asked and words) and not asked & words


_LATE = re.compile(r"\b(?:young|new|late)est\b|\bmost recent(?:ly)?\b", re.IGNORECASE)
_EARLY = re.compile(r"\b(?:old|earli)est\b", re.IGNORECASE)
_MUCH = re.compile(
    r"\b(?:high|larg|great|long|bigg|heavi|tall|wid|deep|fast|strong|rich|hott|warm|dear|b)est\b"
    r"|\b(?:maximum|most expensive|most populous|(?:north|east)ernmost)\b",
    re.I,
)
_LASTED = re.compile(r"\b(?:long|short)est\b", re.IGNORECASE)
_LITTLE = re.compile(
    r"\b(?:low|small|short|cheap|light|narrow|slow|weak|cold|few|l)est\b|\bworst\b"
    r"|\b(?:least|fewest|minimum|(?:south|west)ernmost)\b",
    re.I,
)
TIME = re.compile(  # not a running time, nor a sentiment
    r"date|year|season|born|birth|(?<!run)(?<!run )(?<!life)(?<!sen)time|founded|created|released?"
    r"|publish|hired|joined|since|start|began|opened|established",
    re.I,
)


_DAYS = 366


def is_dated(property_: Property) -> bool:
    """Return whether a property states a time."""
    name = relation_phrase(property_.name)  # ``built_yr`` is a year
    whole = property_.type == "integer" and bool(property_.examples)
    years = whole and all(map(is_year, property_.examples))
    if whole and all(isinstance(one, int) and 0 < one < _DAYS for one in property_.examples):
        return False  # a day of birth, without its month and year
    return years or property_.type in ("date", "datetime") or bool(TIME.search(name))


@lru_cache(8192)
def superlative(question: str, property_: Property, descending: bool) -> float:
    """Score an order by a property against the question's superlative, 0 if that does not decide.

    ``descending``: the direction to score. The oldest has the earliest date of birth, but the
    greatest age.
    """
    if match := re.search(r"\b(asc|desc)ending\b", question, re.IGNORECASE):
        return WEIGHTS["superlative_direction"] * (
            1 if (match[1].lower() == "desc") == descending else -1
        )
    late, early = bool(_LATE.search(question)), bool(_EARLY.search(question))
    dated = is_dated(property_)
    if late != early:
        if not dated and not re.search(r"\bage\b", relation_phrase(property_.name)):
            return 0.0
        first_is_high = late == dated
        return WEIGHTS["superlative_direction"] * (1 if descending == first_is_high else -1)
    much, little = bool(_MUCH.search(question)), bool(_LITTLE.search(question))
    if property_.type in ("date", "datetime") and _LASTED.search(question):
        if took_time(question) or english_words("ends") & {
            *relation_phrase(property_.name).split()
        }:
            return 0.0  # no date says how long that is
        much, little = little, much  # there the longest is there since the earliest date
    if much == little:
        return 0.0
    if _RANKS.intersection(relation_phrase(property_.name).split()):  # the highest has rank 1
        return WEIGHTS["superlative_direction"] * (1 if descending != much else -1)
    return WEIGHTS["superlative_adjective"] * (1 if descending == much else -1)


def is_year(value: object) -> bool:
    """Return whether a value may be a year."""
    return isinstance(value, int) and 1000 <= value <= 2200


PREPOSITION = r"(?:(?:in|at|on|from|to|of|for|by|with) )?"  # that a question may begin with
ASKED = re.compile(
    rf"^\W*{PREPOSITION}(?:which|what(?:['’]s)?|list|show(?: me)?"
    r"|find|name|who"
    r"|how many|give(?: me)?|identify|get|display"
    r"|count|return)(?:\s+(?:are|is|was|were|all|each|every|the|of|any|me|first|top|different|distinct"
    r"|unique|names?"
    r"|titles?|(?:most|least) (?:common|frequent|popular)"
    r"|\d+|one|two|three|four|five|ten))*\s+",
    re.IGNORECASE,
)


_WHO = re.compile(r"\W*who\b", re.IGNORECASE)


def asked_noun(question: str) -> str:
    """Return the question from its requested noun on, "" if it asks for none.

    >>> asked_noun("Which of the lakes are deep?"), asked_noun("Are there lakes?")
    ('lakes are deep?', '')
    """
    match = ASKED.match(question)
    return question[match.end() :] if match else ""


def noun_of_best(question: str) -> str:
    """Return the noun that a superlative is about, "" if none stands right after it.

    >>> noun_of_best("oldest house"), noun_of_best("Who sails the most expensive boat?")
    ('house', 'boat')
    >>> noun_of_best("Which boat is the fastest?"), noun_of_best("Who won the most races?")
    ('', '')
    """
    words = Mentions(question).words
    for at, word in enumerate(words):
        far = at + 1 + bool(MOST.fullmatch(word))
        if asks_best(word) and far < len(words) and words[far] not in _FUNCTION:
            graded = far == at + 1 or any(measured(words[at + 1], noun) for noun in _MEASURES)
            return words[far] if graded else ""
    return ""


_FUNCTION = english_words("small")
_MEASURES = frozenset(noun for _, nouns in _OF_WHAT for noun in nouns.split())
_PERSONS = english_words("persons")
_VERB_END = re.compile(r"(?<=\w{3})(?:e|es|s|ed|ing)$")


@lru_cache(1024)
def _verbs(question: str) -> frozenset[str]:
    """Return the words of a question without verb endings."""
    return frozenset(_VERB_END.sub("", word) for word in re.findall(r"[a-z]+", question.lower()))


def does(question: str, name: str) -> bool:
    """Return whether a question asks for an agent by its verb: who writes, of "Writer".

    >>> does("Who drives for Lotus?", "Driver"), does("Who is Ann?", "Driver")
    (True, False)
    >>> does("Who served most often?", "Server"), does("Who ordered most often?", "Order")
    (True, False)
    """
    if not _WHO.match(question):
        return False
    noun = relation_phrase(name).rpartition(" ")[2]
    agent = noun[-2:] in ("er", "or") and noun[:-2] in _verbs(question)
    return agent or (noun in _PERSONS and bool(Mentions(question).of(name)))


def named(question: str, name: str) -> float:
    """Score a class name for being the question's first noun, or fitting "who"; 0 for neither."""
    if _WHO.match(question):
        person = relation_phrase(name).rpartition(" ")[2] in _PERSONS
        return WEIGHTS["person_class"] * person + WEIGHTS["agent_class"] * does(question, name)
    if names_class(question, name):
        return WEIGHTS["first_noun"]
    return 0.0


@lru_cache(8192)
def names_class(question: str, name: str) -> bool:
    """Return whether the question's first noun is the name of a class.

    >>> names_class("List the first 3 ship cities", "ShipCity"), names_class("Who is she?", "Who")
    (True, False)
    """
    words = stems(name)
    rest = asked_noun(question) or question
    first = re.findall(r"[a-z]+", rest.lower())[: len(words)]
    return bool(words) and not _WHO.match(question) and [*map(stem, first)] == words
