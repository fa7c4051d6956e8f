"""Which of two entities in a question is the head of a relation: "Does A supply B?".

A relation has a side that acts, or bears its noun: of "supplies" and "member of" the head, of
"directed by" and "capital" the tail. A fact that has the two the other way round says something
else, unless the relation holds both ways.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kgqa.lexicon.english import words as english_words
from kgqa.lexicon.lemmas import stem
from kgqa.paths.words import TOPIC, holds_both_ways, relation_phrase
from kgqa.queries.sentence import PAST_VERBS

_PERHAPS = re.compile(  # of which either side may be said to be the one that acts
    r"\b(?:wife|husband|partner|brother|sister|connect\w*|link\w*|cooperat\w*|ally|related|similar"
    r"|equal|interact\w*|associated|touch\w*|bridge|meets?|met|overlap\w*|shares?|versus|opposite"
    r"|near|beside|with|against)\b",
    re.IGNORECASE,
)
_LEADS_ON = english_words("after_verbs")
_IRREGULAR = {
    "wrote": "writ", "written": "writ", "taught": "teach", "bought": "buy", "sold": "sell",
    "led": "lead", "built": "build", "made": "mak", "won": "win", "ran": "run", "drew": "draw",
    "gave": "giv", "took": "tak", "held": "hold", "kept": "keep", "founded": "found",
}  # fmt: skip
FIRST, SECOND = "\x01", "\x02"  # in place of the two names, in the question's order
_ANSWER = "\x05"  # in place of what a question asks for
_DO = r"(?:does|do|did|has|have|had|can|could|will|would)(?:n't)?"
_BE = r"(?:is|are|was|were)(?:n't)?"
_NOT_SECOND = rf"[^{SECOND}]*?"
_WHAT = (
    r"(?:who|whom|(?:which|what|how many)(?: (?!(?:is|are|was|were|do|does|did)\b)[^\W\d_]+){0,3}?)"
)
_OBJECT = rf"(?:the )?{TOPIC}\b"
_ASKED = tuple(
    (re.compile(form, re.IGNORECASE), said)
    for form, said in (
        (rf"whose (?P<rest>(?:\w+ ){{0,2}}?\w+) (?P<verb>{_BE}) {_OBJECT}",
         rf"\g<verb> {_ANSWER}'s \g<rest> {TOPIC}"),
        (rf"(?P<last>\w+) {_WHAT} (?P<verb>{_BE}|{_DO}) (?P<rest>{_OBJECT}.*)",
         rf"\g<verb> \g<rest> \g<last> {_ANSWER}"),
        (rf"{_WHAT} (?P<verb>{_BE}|{_DO}) (?P<rest>{_OBJECT}.+)", rf"\g<verb> \g<rest> {_ANSWER}"),
        (rf"{_WHAT} (?P<verb>{_BE}) (?P<rest>.*{_OBJECT})", rf"\g<verb> {_ANSWER} \g<rest>"),
        (rf"{_WHAT} (?P<rest>.*{_OBJECT})", rf"did {_ANSWER} \g<rest>"),
    )
)  # fmt: skip
_OTHER_CLAUSE = re.compile(
    r",|;|\b(?:and|or|not|that|who|which|whose|where|when|than|most|least|fewest)\b", re.IGNORECASE
)


def answer_is_head(asked: str, relation: str) -> bool | None:
    """Return whether the answer of a question about ``x`` is ``relation``'s head; None if unsaid.

    >>> answer_is_head("Who acquired x?", "acquired"), answer_is_head("Whom did x sue?", "sued")
    (True, False)
    >>> answer_is_head("Who is x's mentor?", "mentor of"), answer_is_head("Who runs x?", "leads")
    (True, None)
    >>> answer_is_head("By whom was x sued?", "sued"), answer_is_head("Whose idol is x?", "idol")
    (True, True)
    """
    stated, answer = _stated(asked)
    head = head_of(stated, relation) if stated else ""
    return head == answer if head else None


_AGENT = re.compile(r"\w+(?:er|or|ist|ress)")


def agent_is_head(noun: str, relation: str) -> bool | None:
    """Return whether a noun for those who act names a relation's heads; None if it names neither.

    >>> agent_is_head("actors", "acted in"), agent_is_head("writers", "written by")
    (True, False)
    >>> agent_is_head("directors", "director"), agent_is_head("towers", "located in")
    (False, None)
    """
    one, phrase = stem(noun.lower()), relation_phrase(relation).split()
    if one in map(stem, phrase):
        return phrase[-1] == "of"
    root = _IRREGULAR.get(phrase[0], phrase[0][: max(3, len(phrase[0]) - 3)])
    if len(root) < 3 or not _AGENT.fullmatch(one) or not one.startswith(root):
        return None
    return phrase[-1] != "by"


@lru_cache(1_024)
def _stated(asked: str) -> tuple[str, str]:
    """Return a question with ``FIRST`` and ``SECOND`` for its answer and ``x``, and the answer's.

    ``FIRST`` is the one that comes first. Both texts are "" if the question has none of the known
    forms.
    """
    text = asked.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").strip(" ?.!")
    for form, said in _ASKED:
        if found := form.fullmatch(text):
            if _OTHER_CLAUSE.search(found["rest"]):
                break
            marked = re.sub(rf"\b{TOPIC}\b", "\x06", found.expand(said))
            first = marked.index(_ANSWER) < marked.index("\x06")
            answer, topic = (FIRST, SECOND) if first else (SECOND, FIRST)
            return marked.replace(_ANSWER, answer).replace("\x06", topic), answer
    return "", ""


def head_of(question: str, relation: str) -> str:
    """Return which name in a question is a relation's head: ``FIRST`` or ``SECOND``.

    ``question``: with these marks for its two names. "" if it lacks the relation's words, the
    relation holds both ways, or the question does not say.

    >>> head_of(f"Does {FIRST} supply {SECOND}?", "supplies") == FIRST
    True
    >>> head_of(f"Is {FIRST} supplied by {SECOND}?", "supplies") == SECOND
    True
    >>> head_of(f"Is {FIRST} the capital of {SECOND}?", "capital") == SECOND
    True
    >>> head_of(f"Is {FIRST}'s boss {SECOND}?", "boss") == FIRST
    True
    >>> head_of(f"Is {FIRST} in {SECOND}?", "located in")
    ''
    """
    phrase = relation_phrase(relation)
    if holds_both_ways(relation) or _PERHAPS.search(phrase):
        return ""
    lower = question.lower()
    roots = "|".join(sorted(re.escape(root) for root in _roots(phrase) if root in lower))
    if not roots:
        return ""
    word = rf"\b(?P<word>(?:{roots})\w*)\b"
    after = rf"(?P<after>(?: (?!the\b|an?\b)\w+)?)(?: (?:the|an?))? ?{SECOND}"
    text = " ".join(question.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())
    forms = (
        (rf"\b(?:{_BE}|been|being|get|got|gets)\b.*{word}{_NOT_SECOND}\bby\b.*{SECOND}",
         SECOND, ""),
        (rf"^\W*{_BE}\b.*{FIRST}'s? (?:\w+ ){{0,2}}{word}\W+(?:\w+ )?{SECOND}", SECOND, "noun"),
        (rf"^\W*{_BE}\b.*{FIRST}.*{SECOND}'s? (?:\w+ ){{0,2}}{word}", FIRST, "noun"),
        (rf"^\W*{_DO}\b.*{FIRST}.*\bha(?:ve|s|d)\b.*{SECOND}.*\bas\b.*{word}", SECOND, "noun"),
        (rf"^\W*{_BE}\b.*{FIRST}{_NOT_SECOND}{word} (?P<after>of|for|in|at) (?:the )?{SECOND}",
         FIRST, "noun"),
        (rf"^\W*(?:{_BE}|{_DO})\b.*{FIRST}(?: \w+){{0,2}} {word}{after}", FIRST, "verb"),
    )  # fmt: skip
    for form, who, use in forms:
        if found := re.search(form, text, re.IGNORECASE):
            said, led = found["word"].lower(), (found.groupdict().get("after") or "").strip()
            agent = use == "noun" and re.search(r"(?:er|or)s?$", said)
            side = _noun_side(phrase, said) if use == "noun" else ""
            if not side and (use != "noun" or agent or led):
                side = _verb_side(phrase, "" if agent else led, "" if agent else said)
            other = FIRST if who == SECOND else SECOND
            return {"head": who, "tail": other, "": ""}[side]
    return ""


def is_surely_verb(relation: str) -> bool:
    """Return whether a relation's name is a verb that cannot be a noun, as "hosts" can.

    >>> [is_surely_verb(each) for each in ("acquired", "works for", "hosts", "owners", "author")]
    [True, True, False, False, False]
    """
    phrase = relation_phrase(relation)
    return " " in phrase or phrase in PAST_VERBS or bool(re.search(r"\w[^e]ed$", phrase))


def _noun_side(phrase: str, said: str) -> str:
    """Return the end of a relation that its noun describes: "head" or "tail"; "" if undecided.

    ``phrase``: the relation's words. ``said``: the noun in the question; "" results also if it is
    not the phrase's last word, or is a verb.
    """
    words = phrase.split()
    of = words[-1] == "of" and len(words) > 1  # not of "place of birth"
    words = words[: words.index("of")] if "of" in words[1:] else words
    if words[-1] == "by" or words[-1] in _LEADS_ON or stem(said) != stem(words[-1]):
        return ""
    if re.search(r"(?:ed|ing)$", said) or said in PAST_VERBS:
        return ""
    return "head" if of else "tail"


def _verb_side(phrase: str, after: str, said: str = "") -> str:
    """Return the end of a relation that does what its verb says: "head", "tail" or "".

    ``phrase``: the relation's words. ``after``: the words after its verb in the question; ``said``:
    that verb there, which distinguishes a verb in "s" from a plural: offers, discoverers.

    >>> _verb_side("sold to", "to"), _verb_side("treated with", ""), _verb_side("author", "")
    ('head', '', 'tail')
    >>> _verb_side("offers", "", "offered"), _verb_side("discoverers", "", "discovered")
    ('head', 'tail')
    """
    words = phrase.split()
    last = words[-1]
    if last == "by":
        return "tail"
    if last == "of" and not re.search(r"ed$", words[0]):
        return "head"
    third = re.search(r"[^su]s$", words[0]) and stem(words[0]) != words[0]
    third = third and (not said or _is_form_of(said, words[0]))
    if (
        third
        or re.search(r"\w[^e]ed$|\w\wing$", words[0])
        or words[0] in PAST_VERBS
        or last in _LEADS_ON
    ):
        leads = last if last in (*_LEADS_ON, "of") else ""
        return "head" if leads == after else ""
    return "tail" if re.search(r"\w(?:er|or)s?$", last) and not after else ""


def _is_form_of(said: str, verb: str) -> bool:
    """Return whether ``said`` is a form of ``verb``, a verb ending in "s": supplied, of supplies.

    >>> _is_form_of("written", "writes"), _is_form_of("discovered", "discoverers")
    (True, False)
    >>> _is_form_of("taught", "teaches"), _is_form_of("supply", "supplies")
    (True, True)
    """
    root = verb[:-1].removesuffix("e")
    irregular = _IRREGULAR.get(said)
    is_irregular = irregular is not None and verb.startswith(irregular)
    return stem(verb) == stem(said) or said.startswith(root) or is_irregular


@lru_cache(8_192)
def _roots(phrase: str) -> frozenset[str]:
    """Return the stems of a relation's content words, without endings such as "ing" and "er"."""
    roots = set[str]()
    for word in phrase.split():
        if len(word) > 2 and word not in {"has", "have", "the", "and", *_LEADS_ON, "of", "by"}:
            bare = stem(word)
            bare = bare[:-1] if len(bare) == 4 and bare.endswith("ed") else bare  # sued
            for ending in ("ing", "ed", "er", "or", "es", "e"):
                if bare.endswith(ending) and len(bare) - len(ending) > 2:
                    bare = bare[: -len(ending)]
                    break
            bare = bare[:-1] if bare.endswith("y") and len(bare) > 4 else bare  # supply, supplies
            roots |= {bare, *([_IRREGULAR[word]] if word in _IRREGULAR else [])}
    return frozenset(roots)
