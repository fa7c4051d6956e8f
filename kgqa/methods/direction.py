"""Which of two named things a question says is the one that does: "Does A supply B?".

A relation has a side that acts, or bears its noun: of "supplies" and "member of" the head, of
"directed by" and "capital" the tail. A fact that has the two the other way round says something
else, unless the relation holds both ways.
"""

from __future__ import annotations

import re

from kgqa.lexicon.english import words as english_words
from kgqa.lexicon.lemmas import stem
from kgqa.paths.words import holds_both_ways, relation_phrase
from kgqa.queries.sentence import PAST_VERBS

_PERHAPS = re.compile(  # of which either side may be said to be the one that acts
    r"\b(?:wife|husband|partner|brother|sister|connect\w*|link\w*|cooperat\w*|ally|related|similar"
    r"|equal|interact\w*|associated|touch\w*|bridge|meets?|met|overlap\w*|shares?|versus|opposite"
    r"|near|beside)\b",
    re.IGNORECASE,
)
_LEADS_ON = english_words("after_verbs")
_IRREGULAR = {
    "wrote": "writ", "written": "writ", "taught": "teach", "bought": "buy", "sold": "sell",
    "led": "lead", "built": "build", "made": "mak", "won": "win", "ran": "run", "drew": "draw",
    "gave": "giv", "took": "tak", "held": "hold", "kept": "keep", "founded": "found",
}  # fmt: skip
_DO = r"(?:does|do|did|has|have|had|can|could|will|would)(?:n't)?"
_BE = r"(?:is|are|was|were)(?:n't)?"
FIRST, SECOND = "\x01", "\x02"  # in place of the two names


def acting_side(relation: str) -> str:
    """Return the side of a relation at which the agent, or the bearer of its noun, stands.

    >>> acting_side("SUPPLIES"), acting_side("directed by"), acting_side("capital")
    ('head', 'tail', 'tail')
    >>> acting_side("member of"), acting_side("reports to"), acting_side("has subsidiary")
    ('head', 'head', 'tail')
    """
    words = relation_phrase(relation).split()
    if not words:
        return ""
    if words[-1] == "by" or words[0] in ("has", "have"):
        return "tail"
    if words[-1] == "of" or words[-1] in _LEADS_ON or words[0] in PAST_VERBS:
        return "head"
    if re.search(r"(?:[^su]s|ed|ing)$", words[0]) and stem(words[0]) != words[0]:
        return "head"
    return "head" if re.search(r"(?:ed|ing)$", words[0]) and len(words[0]) > 4 else "tail"


def acting(question: str, relation: str) -> str:
    """Return which of the names in a question acts by a relation: ``FIRST``, ``SECOND`` or "".

    "" if the question does not have the relation's words, or does not say.

    >>> acting(f"Does {FIRST} supply {SECOND}?", "supplies") == FIRST
    True
    >>> acting(f"Is {FIRST} supplied by {SECOND}?", "supplies") == SECOND
    True
    >>> acting(f"Is {FIRST} the capital of {SECOND}?", "capital") == FIRST
    True
    >>> acting(f"Is {FIRST}'s boss {SECOND}?", "boss") == SECOND
    True
    >>> acting(f"Is {FIRST} in {SECOND}?", "located in")
    ''
    """
    if holds_both_ways(relation) or _PERHAPS.search(relation_phrase(relation)):
        return ""
    roots = "|".join(sorted(map(re.escape, _roots(relation))))
    if not roots:
        return ""
    word = rf"(?:{roots})\w*"
    text = question.replace("’", "'")
    forms = (
        (rf"\b(?:{_BE}|been|being|get|got|gets)\b.*\b{word}\b[^{SECOND}]*\bby\b.*{SECOND}", SECOND),
        (rf"^\W*{_BE}\b.*{FIRST}'s? (?:\w+ ){{0,2}}{word}\W+(?:\w+ )?{SECOND}", SECOND),
        (rf"^\W*{_BE}\b.*{FIRST}.*{SECOND}'s? (?:\w+ ){{0,2}}{word}", FIRST),
        (rf"^\W*{_BE}\b.*{FIRST}[^{SECOND}]*\b{word}\b[^{SECOND}]*{SECOND}", FIRST),
        (rf"^\W*{_DO}\b.*{FIRST}.*\bha(?:ve|s|d)\b.*{SECOND}.*\bas\b.*\b{word}", SECOND),
        (rf"^\W*{_DO}\b.*{FIRST}[^{SECOND}]*\b{word}\b[^{SECOND}]*{SECOND}", FIRST),
    )
    for form, who in forms:
        if re.search(form, text, re.IGNORECASE):
            return who
    return ""


def _roots(relation: str) -> set[str]:
    """Return the stems of a relation's words that a question may inflect."""
    roots = set()
    for word in relation_phrase(relation).split():
        if len(word) > 2 and word not in {"has", "have", "the", "and", *_LEADS_ON, "of", "by"}:
            bare = stem(word)
            for ending in ("ing", "ed", "er", "or", "es", "e"):
                if bare.endswith(ending) and len(bare) - len(ending) > 2:
                    bare = bare[: -len(ending)]
                    break
            bare = bare[:-1] if bare.endswith("y") and len(bare) > 4 else bare  # supply, supplies
            roots |= {bare, *([_IRREGULAR[word]] if word in _IRREGULAR else [])}
    return roots
