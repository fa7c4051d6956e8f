"""What kind of answer an English question asks for, judging by its words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from kgqa.lexicon.english import words
from kgqa.lexicon.lemmas import stem

if TYPE_CHECKING:
    from collections.abc import Sequence

_VERB = (
    r"(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would"
    r"|isn't|aren't|wasn't|weren't|don't|doesn't|didn't|hasn't|haven't)"
)
# "so, did x …", "the mill, is that x's?"
_WHETHER = re.compile(
    rf"\W*(?:(?:so|and|but)\W+|[^,:?]+[,:]\s+)?{_VERB}\b(?! there\b)", re.IGNORECASE
)
# "x owns it, doesn't she", "x owns it, right?"
_TAG = re.compile(
    r"(?:\b\w+n't\s+(?:it|he|she|they|we|you|that)|,\s*(?:right|correct|true|yes|no))\W*$",
    re.IGNORECASE,
)
# "was it x who …", "is x the one who …": who stands for what was named
_RELATIVE = re.compile(
    r"(\b(?:the|an?|it)\s+(?:[^\s,?]+\s+){1,5}?)(?:who|whose|which|when|where)\b", re.IGNORECASE
)
_SOMETHING_ELSE = re.compile(
    r"\b(?:or|who|whom|whose|which|what|what's|where|when|why|how|any\w*|some\w*|tell|ever)\b"
    r"|\byou know\b|\bknow (?:if|of|about)\b",
    re.IGNORECASE,
)


def asks_whether(question: str) -> bool:
    """Return whether a question is a yes-or-no question.

    Not "is there a …", nor what names a choice or asks for something in a side clause.

    >>> asks_whether("Is Bonn the capital of Germany?"), asks_whether("Is it Bonn or Berlin?")
    (True, False)
    >>> asks_whether("Which is it?"), asks_whether("Do you know who runs Bonn?")
    (False, False)
    >>> asks_whether("Does Ann know Bo?")
    True
    """
    question = question.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    if not (_WHETHER.match(question) or _TAG.search(question)):
        return False
    return not _SOMETHING_ELSE.search(_RELATIVE.sub(r"\1", question))


_WHOLE = re.compile(
    r"\bhow (?:many|often)\b|\b(?:the )?(?:number|count) of\b|\b(?:on )?average\b"
    r"|\bmean (?!s\b)\w|\btotal\b|\bsum of\b",
    re.IGNORECASE,
)


def asks_calculated(question: str) -> bool:
    """Return whether a question asks for a count or another calculated number.

    >>> asks_calculated("How many orders did Ernst Handel place?"), asks_calculated("Who is she?")
    (True, False)
    """
    return bool(_WHOLE.search(question))


_TIMES = re.compile(r"\bhow (?:many times|often)\b", re.IGNORECASE)


def asks_times(question: str) -> bool:
    """Return whether a question asks how often something happened.

    >>> asks_times("How many times did Ann visit Bonn?"), asks_times("How many visits?")
    (True, False)
    """
    return bool(_TIMES.search(question))


_HOW_MUCH = re.compile(r"\W*how (?:many|much)\b", re.IGNORECASE)
_WHEN = re.compile(r"\W*(?:when|in what year|in which year|since when)\b", re.IGNORECASE)
_WHEN_FIRST = re.compile(
    r"\bwhen\b.*\b(?:(?P<first>first|earliest)|last|latest|recently)\b", re.IGNORECASE
)


def asks_how_much(question: str) -> bool:
    """Return whether a question begins with "how many" or "how much".

    >>> asks_how_much("How much did Ann pay?"), asks_how_much("How long is it?")
    (True, False)
    """
    return bool(_HOW_MUCH.match(question))


def asks_when(question: str) -> bool:
    """Return whether a question asks for a time.

    >>> asks_when("When did Ann leave?"), asks_when("Who left when Ann came?")
    (True, False)
    """
    return bool(_WHEN.match(question))


_ONE = re.compile(
    rf"\W*(?:(?:who|what|which)(?:\s+(?:is|was)|['’]s)\s+the\b"
    rf"|(?:what|which)\s+(?!{_VERB}\b)(?P<noun>(?:[^\W\d_]+\s+){{0,2}}?[^\W\d_]+)"
    r"\s+(?:of|in|is|was|does|did|do|has|had|will)\b)",
    re.IGNORECASE,
)


def asks_for_one(question: str) -> bool:
    """Return whether a question asks for a single thing: a time, or a noun in the singular.

    >>> asks_for_one("When did Ann leave?"), asks_for_one("Who was the first captain of Delta?")
    (True, True)
    >>> asks_for_one("What year did Ann leave?"), asks_for_one("What prizes did Ann win?")
    (True, False)
    >>> asks_for_one("What did Ann win?"), asks_for_one("Who are the owners of Delta?")
    (False, False)
    """
    if asks_when(question):
        return True
    found = _ONE.match(question)
    if found is None:
        return False
    noun = (found["noun"] or "").lower().rpartition(" ")[2]
    return stem(noun) == noun or noun.endswith("ie")  # not a plural; "movie" has another stem


_LASTING = re.compile(
    r"\b(?:durations?|how long|(?:long|short)e(?:r|st))\b"
    r"|\bhow many (?:days|weeks|months|years)\b"
    r"|\b(?:days|weeks|months|years|time) (?:between|from)\b",
    re.IGNORECASE,
)


_SINCE = re.compile(r"\b(?:has|have|'ve)\s+(?:\w+\s+){0,3}?(?:been|\w+ed|held|kept)\b", re.I)


_TOOK = re.compile(r"\b(?:took|takes?|taken|lasted|lasting)\b", re.IGNORECASE)


def took_time(question: str) -> bool:
    """Return whether a question is about the time that something took.

    >>> took_time("Which job took longest?"), took_time("Who has been here longest?")
    (True, False)
    """
    return bool(_TOOK.search(question))


def has_lasted(question: str) -> bool:
    """Return whether a question is about what began and lasts, as the perfect tense says.

    >>> has_lasted("Who has worked here longest?"), has_lasted("Which trip was the longest?")
    (True, False)
    """
    return bool(_SINCE.search(question))


def asks_duration(question: str) -> bool:
    """Return whether a question asks, or may ask, for the time that something takes.

    >>> asks_duration("Which project took longest?"), asks_duration("Who took part last?")
    (True, True)
    >>> asks_duration("List the last 3 projects"), asks_duration("Who has been here longest?")
    (False, False)

    What still lasts, as the perfect tense says, is there since its beginning.
    """
    return (took_time(question) or bool(_LASTING.search(question))) and not has_lasted(question)


_ALIKE = re.compile(
    r"\b(?:(?P<same>the same|identical|equals?|match(?:es)?|coincides?)"
    r"|different|differs?|not the same|unequal)\b",
    re.IGNORECASE,
)


def same_or_different(question: str) -> Literal["=", "<>", ""]:
    """Return "=" or "<>" if a question says that values are the same or different, else "".

    >>> same_or_different("Who lives and works in the same town?")
    '='
    >>> same_or_different("Whose two towns are different?"), same_or_different("Who lives here?")
    ('<>', '')
    """
    found = _ALIKE.search(question)
    if found is None:
        return ""
    denied = re.search(r"\b(?:not|n't|never)\s+$", question[: found.start()], re.IGNORECASE)
    return "=" if bool(found["same"]) != bool(denied) else "<>"


def asks_which_time(question: str) -> str:
    """Return "first" or "last" if a question asks for that of several times, else "".

    >>> asks_which_time("When did Ann last visit Bonn?"), asks_which_time("When did Ann leave?")
    ('last', '')
    """
    found = _WHEN_FIRST.search(question)
    return "" if found is None else "first" if found["first"] else "last"


_OWN = re.compile(
    r"(\W*(?:what|who)(?: (?:is|are|was|were)|['’]s)) (?!the\b)([^'’]+)['’]s?"
    r" ((?:\w+[ -]){0,2}?\w+)(\W*)",
    re.IGNORECASE,
)


def as_of(question: str) -> str:
    """Rewrite a possessive question with "of"; other questions are returned unchanged.

    >>> as_of("What is Bo Lind's phone number?"), as_of("What's new?")
    ('What is the phone number of Bo Lind?', "What's new?")
    """
    found = _OWN.fullmatch(question)
    return f"{found[1]} the {found[3]} of {found[2]}{found[4]}" if found else question


_LISTED_BY = re.compile(
    r"(?P<what>\W*(?:(?:list|show(?: me)?|display|print|give me|get)\s+)?"
    r"(?!(?:who|what|which|when|where|why|how|count|is|are|was|were|do|does|did|can)\b)[^?]*?)"
    r" by (?:the |their |its )?(?:number of )?(?P<by>(?:[\w-]+ ){0,2}[\w-]+)\W*",
    re.IGNORECASE,
)


def listed_by(question: str) -> tuple[str, str] | None:
    """Return what a question lists, and by what; None for other questions.

    >>> listed_by("Show all flats by number of rooms"), listed_by("total rent by district")
    (('Show all flats', 'rooms'), None)
    """
    found = _LISTED_BY.fullmatch(question)
    if found is None or asks_calculated(found["what"]) or asks_best(question):
        return None
    return found["what"], found["by"]


_RATIO = re.compile(r"\s+(?:per|for each|for every) ((?:\w+ ?)+)", re.IGNORECASE)
_GAP = re.compile(
    r"\b(?P<noun>difference|gap|margin) between (?:(?:the|its|their) )?(?P<left>[\w ]+?) and"
    r" (?:(?:the|its|their) )?(?P<right>(?:\w+ )?\w+)",
    re.IGNORECASE,
)


def ratio_of(question: str) -> tuple[str, list[str], str] | None:
    """Return what stands before "per", the words after it, and the rest; None without a "per".

    >>> ratio_of("What is the rent per room of Quai 7?")
    ('What is the rent', ['room', 'of', 'Quai', '7'], '?')
    """
    found = _RATIO.search(question)
    if found is None:
        return None
    return question[: found.start()], found[1].split(), question[found.end() :]


class Gap(NamedTuple):
    """Two things whose difference is asked for, what it is called, and the rest of a question."""

    before: str
    noun: str
    left: list[str]
    right: list[str]
    after: str


def gap_of(question: str) -> Gap | None:
    """Return the two things between which a question asks for a gap, None for other questions.

    >>> gap_of("Biggest gap between list price and sale price?")[1:4]
    ('gap', ['list', 'price'], ['sale', 'price'])
    """
    found = _GAP.search(question)
    if found is None:
        return None
    left, right = found["left"].split(), found["right"].split()
    before, after = question[: found.start()], question[found.end() :]
    return Gap(before, found["noun"].lower(), left, right, after)


_COLLEAGUES = re.compile(
    r"\b(?:works?|working) (?:together |alongside )?with\b"
    r"|(?<=\bwho )(?:is|are) (?:an? |the )?colleagues? of\b",
    re.IGNORECASE,
)


def as_colleagues(question: str) -> str:
    """Rewrite a question about the colleagues of someone as one about the same place of work.

    >>> as_colleagues("Who works with Bo Lind?"), as_colleagues("Who works for Bo Lind?")
    ('Who works in the same place as Bo Lind?', 'Who works for Bo Lind?')
    """
    return _COLLEAGUES.sub("works in the same place as", question, count=1)


_UNDONE = re.compile(r"\bun(\w{3,}ed)\b", re.IGNORECASE)


def undone(question: str) -> str:
    """Return the verb of which a question says that it is not done, "" if it says so of none.

    >>> undone("Which tasks are unassigned?"), undone("Which tasks are assigned?")
    ('assigned', '')
    """
    found = _UNDONE.search(question)
    return found[1] if found else ""


_OF_ONE = re.compile(
    r"\W*(?:what|who)(?: (?:is|are|was|were)|['’]?s) (?:the )?"
    r"(?:(?P<of>(?:\w+[ -]){0,3}?\w+) (?:of|for|in) (?:the )?\x00"
    r"|\x00(?:['’]s?)? (?P<own>(?:\w+[ -]){0,3}?\w+))\W*"
    r"|\W*how many (?P<many>(?:\w+[ -]){0,2}?\w+) (?:does|do|did|has|have|had) (?:the )?\x00"
    r"(?: (?:have|has|had|got))*\W*",
    re.IGNORECASE,
)


def asked_of_one(bare: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the noun that a question asks of one named entity, "" for other questions.

    ``bare``: a question with spaces for the names, which stand at ``spans``.

    >>> asked_of_one("What is the salary of    ?", [(22, 25)])
    'salary'
    >>> asked_of_one("What is   's phone number?", [(8, 10)]), asked_of_one("Who is    ?", [(7, 9)])
    ('phone number', '')
    >>> asked_of_one("How many children does     have?", [(23, 26)])
    'children'
    """
    if not spans:
        return ""
    start, end = min(start for start, _ in spans), max(end for _, end in spans)
    if bare[start:end].strip():
        return ""  # two names, with something between them
    found = _OF_ONE.fullmatch(f"{bare[:start]}\x00{bare[end:]}")
    return (found["of"] or found["own"] or found["many"]).lower() if found else ""


_COMPARED = re.compile(
    r"\b(?:no|not|never|without|nobody|none)\b|n't\b|\b(?:more|less|fewer|over|under|above|below"
    r"|at least|at most|before|after|since|until|between|in)\b[^?]*?"
    r"(?:\d|\b(?:two|three|four|five|six|ten)\b)|\b(?:\d+|two|three|four) or more\b"
    r"|\b(?:than|least|most) one\b",
    re.IGNORECASE,
)


def asks_compared(question: str) -> bool:
    """Return whether a question has a negation, or a number with a bound, or a number after "in".

    >>> asks_compared("Which trials have no monitor?"), asks_compared("Which ships sail?")
    (True, False)
    """
    return bool(_COMPARED.search(question))


_EITHER = re.compile(
    r"\bor\b(?! (?:more|less|above|below|over|under|(?-i:[a-z]+er))\b)", re.IGNORECASE
)
_OTHERS = re.compile(
    r"\b(?:no|not|never|without|nobody|none|neither)\b|n't\b|\b(?:except|other than)\b", re.I
)
_REPEATED = re.compile(
    r"\b(?:indirectly|transitively|recursively|at (?:any|all) levels?|chain of \w+"
    r"|every(?:one|body|thing) (?:\w+ )?(?:under|above|below|over)|ancestors?|descendants?)\b",
    re.IGNORECASE,
)


def asks_denied(question: str) -> bool:
    """Return whether a question asks for entities without something, or names two alternatives.

    >>> asks_denied("Which books are not in stock at Leeds?"), asks_denied("Who is not it?")
    (True, True)
    """
    return bool(_OTHERS.search(question)) or asks_either(question)


def asks_either(question: str) -> bool:
    """Return whether a question names two alternatives ("A or B").

    >>> asks_either("Is it Bonn or Ulm?"), asks_either("Who has two or more, who one or fewer?")
    (True, False)
    >>> asks_either("Is it Bonn or Hanover?")
    True
    """
    return bool(_EITHER.search(question))


def asks_repeated(question: str) -> bool:
    """Return whether a question asks for a relation repeated any number of times.

    >>> asks_repeated("Who works under Ann, directly or indirectly?"), asks_repeated("Who is she?")
    (True, False)
    """
    return bool(_REPEATED.search(question))


_COMPARATIVE = re.compile(
    r"\b(?:the )?(?:(more|less|few)(?:er)?|(high|tall|long|short|old|young|larg|bigg|small|low"
    r"|cheap|fast|slow|heavi|light|deep|wide|narrow|near|new|earli|lat|great|rich|wealthi|strong|hott|cold"
    r"|warm)er|(?<=\w\w) (first|last))\b(?! than| names?\b)",
    re.IGNORECASE,
)
_ENDS = {"more": "most", "less": "least", "few": "fewest", "first": "earliest", "last": "latest"}


def as_superlative(question: str) -> str:
    """Rewrite a question that compares two entities as one for the best; leave others unchanged.

    >>> as_superlative("Which is higher, Mont Blanc or the Eiger?")
    'Which is the highest, Mont Blanc or the Eiger?'
    >>> as_superlative("Who was born first, Ann or Bo?"), as_superlative("Who is older than Ann?")
    ('Who was born the earliest, Ann or Bo?', 'Who is older than Ann?')
    """
    if not asks_either(question):
        return question

    def best(match: re.Match[str]) -> str:
        """Return the superlative of a matched comparative."""
        amount, adjective, order = match.groups()
        said = f"{adjective}est" if adjective else _ENDS[(amount or order).lower()]
        return f"{' ' if order else ''}the {said}"

    return _COMPARATIVE.sub(best, question, count=1)


_IS_MORE = re.compile(
    r"\W*(?:is|are|was|were) (?P<one>.+?) (?:more (?P<much>\w+)|less (?P<little>\w+)|(?P<er>\w+er))"
    r" than (?P<two>.+?)\W*",
    re.IGNORECASE,
)
_HAS_MORE = re.compile(
    r"\W*(?:does|do|did|has|have) (?P<one>.+?) (?:have |had )?(?P<er>more|fewer)"
    r" (?P<noun>.+?) than (?P<two>.+?)\W*",
    re.IGNORECASE,
)


def as_choice(question: str) -> str:
    """Rewrite "Is A heavier than B?" as "Which is the heaviest, A or B?"; "" for other questions.

    >>> as_choice("Is Mont Blanc higher than the Eiger?")
    'Which is the highest, Mont Blanc or the Eiger?'
    >>> as_choice("Does Bonn have more people than Ulm?"), as_choice("Is Bonn a city?")
    ('Which has the most people, Bonn or Ulm?', '')
    """
    if match := _HAS_MORE.fullmatch(question):
        most = "most" if match["er"].lower() == "more" else "fewest"
        return f"Which has the {most} {match['noun']}, {match['one']} or {match['two']}?"
    if not (match := _IS_MORE.fullmatch(question)):
        return ""
    best = f"{match['er'][:-1]}st" if match["er"] else ""
    best = best or f"{'most' if match['much'] else 'least'} {match['much'] or match['little']}"
    return f"Which is the {best}, {match['one']} or {match['two']}?"


# not "interest", "west", "test"; not "at least 3"
BEST = re.compile(
    r"\b(?!(?:inter|b|qu|w|t|r|n|gu|v|f|ch|for|p|arr|prot|cont|har|inv|requ|sugg|j|z|cr)est\b)"
    r"(?:\w{2,}est|(?:north|south|east|west)ernmost|most|least(?! \d)|fewest)\b"
    r"(?<!at least)(?<!at most)"
    r"|\b(?:best|worst)[ -]\w+ed\b"
    r"|\b(?:\w+ed|came|began|born|left|won|built|expires) (?:first|last)\b"
    r"|\bwhen (?:did|was|were|has|have)\b.*\b(?:first|last)\b",
    re.I,
)


def asks_best(question: str) -> bool:
    """Return whether a question has a superlative.

    >>> asks_best("Which lake is the deepest?"), asks_best("Who has at least 3 guests?")
    (True, False)
    >>> asks_best("Which lakes are at most 3 m deep?")
    False
    """
    return bool(BEST.search(question))


_OLDEST = re.compile(r"\b(?:young|old)est\b", re.I)
_HOW = re.compile(r"\W*how (?!many\b)(\w+)", re.I)
_MUCH_OF = re.compile(r"\W*how much\b(?! (?:is|are|was|were|do|does|did)\b)", re.I)
_HOW_IS = re.compile(r"\W*(?:how (?!many\b)\w+|when) (?:is|was|did|does|were|are) (?:the )?", re.I)


def asks_oldest(question: str) -> bool:
    """Return whether a question asks for the oldest or the youngest."""
    return bool(_OLDEST.search(question))


def asks_how(question: str) -> str:
    """Return the adjective that a question begins with after "how", "" if there is none.

    >>> asks_how("How big is the biggest boat?"), asks_how("How much is it?"), asks_how("How many?")
    ('big', 'expensive', '')
    """
    match = _HOW.match(question)
    how = match[1].lower() if match else ""
    return "expensive" if how == "much" else how


def as_what(question: str) -> str:
    """Return "what salt is in the bread?" for "how much salt …", "" for other questions."""
    return f"What{question[match.end() :]}" if (match := _MUCH_OF.match(question)) else ""


def without_how(question: str) -> str:
    """Return a question without "how big is the" or "when was the" at its beginning.

    >>> without_how("How big is the biggest boat?"), without_how("When did Ann leave?")
    ('biggest boat?', 'Ann leave?')
    """
    match = _HOW_IS.match(question)
    return question[match.end() :] if match else question


_FEW = re.compile(rf"\b(?:top|best|bottom) (?:\d+|{'|'.join(sorted(words('numbers')))})\b", re.I)


def asks_few(question: str) -> bool:
    """Return whether a question asks for a stated number of the best.

    >>> asks_few("The top 3 films by length"), asks_few("The first 3 films")
    (True, False)
    """
    return bool(_FEW.search(question))


_ENDED = re.compile(r"\bno longer\b|\bany ?more\b|\bformer(?:ly)?\b|\bused to\b|\bex-", re.I)
_LASTS = re.compile(
    r"\bstill\b|\bcurrent(?:ly)?\b|\bat present\b|(?:\bnot|n['’]t)\b.* yet\b|\bongoing\b", re.I
)


def still_or_not(question: str) -> bool | None:
    """Return whether a question is about what still lasts, False if it ended; None for neither.

    >>> still_or_not("Who still works here?"), still_or_not("Who no longer works here?")
    (True, False)
    >>> still_or_not("Which projects have not ended yet?")
    True
    """
    if _ENDED.search(question):
        return False
    return True if _LASTS.search(question) else None


_HAD = re.compile(r"\b(?:has|have|having|with)\s+(?:an?|any|the|its|their|some)\s+(\w+)", re.I)


def had(question: str) -> list[str]:
    """Return the nouns, as stems, of what things are asked to have.

    >>> had("Which flats have a balcony?"), had("Which flats have two rooms?")
    (['balcony'], [])
    """
    return [stem(one.lower()) for one in _HAD.findall(question)]


_JOINED = r"(?:connected|related|linked|associated|tied)"
_CONNECTION: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"\W*{form}\W*", re.IGNORECASE))
    for kind, form in (
        ("common", r"what (?:do|does|did|have|has) x and x (?:have |got |share )?(?:in common)?"),
        ("common", r"what (?:is|are|things? (?:is|are)) (?:in )?common (?:to|between) x and x"),
        ("how", rf"how (?:is|are|was|were) x (?:and|to) x {_JOINED}(?: (?:to|with) each other)?"),
        ("how", rf"how (?:is|are|was|were) x {_JOINED} (?:to|with) x"),
        ("how", r"how (?:do|does|did) x (?:and|connect to|relate to) x(?: connect| relate)?"),
        ("how", r"what (?:connects|links|relates|joins) x (?:and|to|with) x"),
        (
            "how",
            r"(?:what|which) (?:is|are) the (?:shortest )?(?:connections?|links?|paths?|relations?"
            r"|relationships?|ties?) (?:between|of|from) x (?:and|to|with) x",
        ),
        (
            "how",
            r"(?:show|find|give)(?: me)? (?:the |a )?(?:shortest )?(?:path|connection|link)s?"
            r" (?:between|from) x (?:and|to) x",
        ),
        (
            "whether",
            rf"(?:is|are|was|were) x and x (?:\w+ )?{_JOINED}(?: in (?:any|some) way"
            r"| (?:to|with) each other)?",
        ),
        ("whether", rf"(?:is|are|was|were) x (?:\w+ )?{_JOINED} (?:to|with) x(?: in any way)?"),
        (
            "whether",
            r"is there (?:a|any) (?:connection|link|path|relation(?:ship)?) (?:between|from) x"
            r" (?:and|to) x",
        ),
    )
)


def asks_connection(masked: str) -> str:
    """Return which connection of two entities a question asks for, "" if it asks for none.

    ``masked``: the question with ``x`` in place of both names. One of "how", "whether", "common";
    "" for another question.

    >>> asks_connection("How are x and x connected?"), asks_connection("Is x linked to x?")
    ('how', 'whether')
    >>> asks_connection("What do x and x have in common?"), asks_connection("Who knows x and x?")
    ('common', '')
    """
    bare = " ".join(re.sub(r"\b(?:the|a|an) x\b", "x", masked).split())
    return next((kind for kind, form in _CONNECTION if form.fullmatch(bare)), "")
