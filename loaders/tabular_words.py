"""The words in the names of tables and columns: what is said of a thing, and of what kind it is."""

from __future__ import annotations

import re


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[A-ZÀ-Þ]+(?![a-zß-ÿ])|[A-ZÀ-Þ]?[a-zß-ÿ]+|\d+|[^\W\d_]+")
ID_WORDS = _set("id ids key fk ref uuid guid code no nr number")
_PLURALS = {"people": "person", "children": "child", "men": "man", "women": "woman"}
_PLURALS |= {f"{word}s": word for word in ("movie", "cookie", "zombie", "calorie", "tie", "pie")}
_SAME = ("ss", "us", "is", "news", "series", "species")  # ends of words that are not plurals
LINK_WORDS = _set(  # of a table's name that say only that it joins two others
    "detail item line link map mapping rel relation relationship join xref assoc association "
    "to has and of in name x"
)
SELF_WORDS = _set(  # that name a thing of the same kind
    "manager parent boss supervisor superior mother father spouse partner predecessor successor "
    "mentor reports replaces replaced follows sequel prequel lead child head"
)
PERSON_WORDS = _set(
    "person employee staff user member player worker people personnel teacher doctor physician "
    "instructor professor faculty"
)
ROLE_WORDS = _set(  # what a person is to a row: ids in such a column are of people
    "rep representative manager supervisor boss head lead leader chief captain coach agent owner "
    "author creator assignee assigned seller buyer reviewer editor approver requester reporter "
    "officer technician handler clerk instructor teacher advisor adviser tutor doctor physician "
    "nurse surgeon driver pilot host guide by contact"
)
_ASKED = ("is", "has", "can", "was", "had")  # begin the name of a column of yes and no
_STATE = ("active", "available", "flag", "enabled", "optional")
CLASS_WORDS = _set("kind type class")
_NO_CLASS = _set("list data info information table tbl")  # say of a table that it is one
THING_WORDS = _set(  # columns whose values are things even where few of them repeat
    "city town country state region province county continent language nationality genre category "
    "brand manufacturer publisher author artist director composer department team league club "
    "company organisation organization employer school university currency profession occupation "
    "religion species family venue location place station airport district owner"
)


def words(name: str) -> list[str]:
    """Return the words of a name in lower case.

    >>> words("unitsInStock"), words("customerID"), words("ACTED_IN")
    (['units', 'in', 'stock'], ['customer', 'id'], ['acted', 'in'])
    """
    return [word.lower() for word in _WORD.findall(name)] or [name.lower()]


def spoken(name: str) -> str:
    """Return a name as words: ``shipVia`` is "ship via", ``customerID`` is "customer id"."""
    return " ".join(words(name))


def says_whether(name_words: list[str]) -> bool:
    """Return whether a column of that name, of 0 and 1, says yes and no: ``discontinued``."""
    return name_words[0] in _ASKED or name_words[-1] in _STATE or name_words[-1].endswith("ed")


def relation_of(name: str) -> str:
    """Return what a column that points to a thing says of the row: ``customerID`` is "customer"."""
    name_words = words(name)
    while len(name_words) > 1 and name_words[-1] in ID_WORDS:
        name_words.pop()
    return " ".join(name_words)


def singular(word: str) -> str:
    """Return an English noun in the singular.

    >>> [singular(word) for word in ("orders", "categories", "boxes", "sizes", "address")]
    ['order', 'category', 'box', 'size', 'address']
    """
    if word in _PLURALS:
        return _PLURALS[word]
    if len(word) < 4 or word.endswith(_SAME) or not word.endswith("s"):
        return word
    if word.endswith(("gnoses", "alyses", "crises", "heses")):
        return word[:-2] + "is"
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "tzes")):
        return word[:-2]
    return word[:-1]


def type_words(name: str) -> list[str]:
    """Return the words of what a row of a table is: ``order-details`` is order, detail."""
    name_words = words(name)
    while len(name_words) > 1 and name_words[-1] in _NO_CLASS:
        name_words.pop()
    return [*name_words[:-1], singular(name_words[-1])]


def type_name(name_words: list[str]) -> str:
    """Return the name of a type, as labels are written: ``OrderDetail``."""
    return "".join(word[:1].upper() + word[1:] for word in name_words)
