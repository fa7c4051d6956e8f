"""How nodes of a label are called: which of their properties are the id and the names."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgqa.graph.attached import Naming
from kgqa.graph.attached_keys import NULLS, values_of
from kgqa.graph.literals import (
    READ,
    cast_values,
    common_type,
    is_walked,
    number_in,
    value_type,
)
from kgqa.graph.neo4j_native import plain
from kgqa.graph.schema import Property

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kgqa.graph.schema import ValueType

_EXAMPLES = 3
_NAMES = {"name": 100, "title": 90, "full name": 85, "display name": 85, "pref label": 80,
          "label": 80, "caption": 75, "heading": 75, "subject": 70, "username": 60,
          "screen name": 60, "login": 60}  # fmt: skip
_ALIASES = frozenset(
    ("alias", "aliases", "aka", "also known as", "synonym", "synonyms", "nickname", "nicknames",
     "full name", "display name", "short name", "other name", "other names", "alternative name",
     "alternative names", "alt name", "alt names")
)  # fmt: skip
_IDS = frozenset({"id", "isbn", "uid", "uuid", "guid", "key", "code", "iri", "uri", "number", "no"})
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_|\W")
_MOST = 100  # characters that a name has on average, at most
_LETTERS = 0.5  # part of an unnamed property's characters that must be letters, to be a name


@dataclass(slots=True)
class Column:
    """A property in a sample of nodes or relationships."""

    name: str
    rows: int = 0
    long: int = 0
    many: int = 0
    nulls: int = 0  # texts that stand for no value
    characters: int = 0
    letters: int = 0
    types: Counter[ValueType] = field(default_factory=Counter)  # as they are kept
    read: Counter[ValueType] = field(default_factory=Counter)  # of texts, as what they say
    distinct: Counter[Any] = field(default_factory=Counter)

    def add(self, value: Any) -> None:
        """Count one value."""
        value_plain = plain(value)
        self.rows += 1
        self.many += isinstance(value_plain, list)
        self.long += (
            value_plain is not None and bool(values_of(value)) and not is_walked(value_plain)
        )
        self.nulls += isinstance(value, str) and value in NULLS
        parts = value if isinstance(value, list) else [value]
        is_text = any(isinstance(part, str) for part in parts)
        for member in values_of(value) if is_walked(value_plain) else ():
            self.types["text" if is_text else value_type(member)] += 1
            self.distinct[member] += 1
            if is_text and isinstance(member, str):
                number = number_in(member)
                self.read[value_type(member if number is None else number)] += 1
            if isinstance(member, str):
                self.characters += len(member)
                self.letters += sum(map(str.isalpha, member))

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its name, in small letters."""
        return words_of(self.name)

    @property
    def unique(self) -> bool:
        """Whether no value comes twice in the sample."""
        return bool(self.distinct) and self.distinct.total() == len(self.distinct) == self.rows

    @property
    def average(self) -> float:
        """How many characters a value has."""
        return self.characters / max(self.distinct.total(), 1)

    def as_property(self, count: int, walked: bool, *, is_name: bool) -> Property:
        """Return what the schema says of it; ids and names (``is_name``) are texts if kept so."""
        type_ = common_type(list(self.types)) if self.types else "text"
        texts, said = self.types["text"], Counter(self.read)
        unread = said.pop("text", 0)
        read = common_type([*said, *(set(self.types) - {"text"})]) if said else "text"
        as_text = not is_name and read != "text" and unread <= (1 - READ) * texts
        # what is usual, not what comes first
        examples = [value for value, _ in self.distinct.most_common(_EXAMPLES)]
        mostly_short = self.long <= 0.1 * self.rows
        return Property(
            self.name,
            read if as_text else type_,
            self.many > 0.5 * self.rows,
            count,
            tuple(cast_values(examples, read) if as_text else examples),
            walked and mostly_short,
            as_text=as_text,
            unread=unread if as_text else 0,
            nulls=self.nulls,
        )


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name, in small letters.

    >>> words_of("companyName"), words_of("ACTED_IN")
    (('company', 'name'), ('acted', 'in'))
    """
    return tuple(part.lower() for part in _CAMEL.split(name) if part)


def spoken_names(names: Sequence[str]) -> list[str]:
    """Return relations as people say them; as they are, if that does not tell them apart.

    >>> spoken_names(["ACTED_IN", "companyName", "company_name"])
    ['acted in', 'companyName', 'company_name']
    """
    spoken = [" ".join(words_of(name)) or name for name in names]
    times = Counter(spoken)
    return [form if times[form] == 1 else name for form, name in zip(spoken, names, strict=True)]


def columns_of(rows: Iterable[dict[str, Any]]) -> dict[str, Column]:
    """Return the properties of a sample, by name."""
    columns: dict[str, Column] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, Column(name)).add(value)
    return columns


def chosen_naming(
    label: str,
    columns: dict[str, Column],
    rows: int,
    constraints: set[str],
    is_unique: Callable[[str], bool],
) -> Naming:
    """Return id and names of a label, of whose nodes ``rows`` were sampled.

    ``constraints``: properties that the database keeps unique; ``is_unique`` asks it to count.
    """
    own = words_of(label)
    ids = [
        (_id_rank(columns[name].words, own), name)
        for name in columns
        if name in constraints or _id_rank(columns[name].words, own) < 9
    ]
    id_ = ""
    for _, name in sorted(ids, key=lambda ranked_id: (ranked_id[1] not in constraints, *ranked_id)):
        column = columns[name]
        scalar = column.types.keys() <= {"text", "integer"} and not column.many
        covers = column.rows == rows and column.unique
        if scalar and covers and (name in constraints or is_unique(name)):
            id_ = name
            break
    ranked = sorted(
        (-rank, columns[name].average, name)
        for name in columns
        if (rank := _name_rank(columns[name], own, columns, rows, name in constraints)) > 0
    )
    names = [name for _, _, name in ranked[:1]]
    names += sorted(
        name
        for name, column in columns.items()
        if names and name not in names and " ".join(column.words) in _ALIASES
    )
    return Naming(tuple(names), id_)


def _id_rank(words: tuple[str, ...], own: tuple[str, ...]) -> int:
    if words == (*own, "id"):
        return 0
    if len(words) == 1 and words[0] in _IDS:
        return 1
    return 2 if words and words[-1] in _IDS else 9  # a name may have no word


def _name_rank(
    column: Column, own: tuple[str, ...], columns: dict[str, Column], rows: int, constraint: bool
) -> float:
    """Return how well a property names the nodes of a label; 0 if it does not."""
    if column.types.keys() != {"text"} or column.rows < rows / 2 or column.average > _MOST:
        return 0
    words, text = column.words, " ".join(column.words)
    if text in _NAMES:
        return _NAMES[text] + (5 if constraint else 0)
    if words in ((*own, "name"), (*own, "title")):
        return 95
    distinct = len(column.distinct) >= 0.9 * column.distinct.total()
    # "contactName" beside "contactTitle" names the contact, not what has it
    part = any(
        other.words[:1] == words[:1] and other.name != column.name and len(other.words) > 1
        for other in columns.values()
        if words[:1] != own[:1]
    )
    if words[-1:] in (("name",), ("title",)) and distinct and not part:
        return 50
    texts = column.letters >= _LETTERS * column.characters
    spaced = sum(" " in str(value) for value in column.distinct) >= len(column.distinct) / 2
    if column.unique and column.rows == rows and texts and (constraint or spaced):
        return 20 - column.average / _MOST
    return 0
