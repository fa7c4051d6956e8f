"""What tables mean as a graph, as a value: ``mapping.toml``, which people can read and edit.

A table of things is a type: a row is an entity with a key, a name, properties and edges. A table of
edges has two columns that point to things; the others are properties of the edge. See
``docs/tables.md`` for an example.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from kgqa.errors import UsageError
from kgqa.files import read_settings, toml_key, toml_value
from kgqa.graph.names import ABBREVIATIONS, KEY_WORDS
from kgqa.graph.schema import ValueType
from kgqa.lexicon.joined import split_joined
from kgqa.lexicon.lemmas import stem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def _set(text: str) -> frozenset[str]:
    """Split a text into a set of words."""
    return frozenset(text.split())


_WORD = re.compile(r"[A-ZÀ-Þ]+(?![a-zß-ÿ])|[A-ZÀ-Þ]?[a-zß-ÿ]+|\d+|[^\W\d_]+")
ID_WORDS = KEY_WORDS | _set("code no nr number")
_PLURALS = {"people": "person", "children": "child", "men": "man", "women": "woman"}
_PLURALS |= {f"{word}s": word for word in ("movie", "cookie", "zombie", "calorie", "tie", "pie")}
_SAME = ("ss", "us", "is", "news", "series", "species")  # ends of words that are not plurals
LINK_WORDS = _set(  # of a table's name that say only that it joins two others
    "detail item line link map mapping rel relation relationship join xref assoc association "
    "to has and of in name x"
)
SELF_WORDS = _set(  # that name a thing of the same kind
    "manager parent boss supervisor superior mother father spouse partner predecessor successor "
    "mentor reports replaces replaced follows sequel prequel lead child head foreman "
    "evolves derived forked inherits extends supersedes sub super subclass superclass subtype "
    "supertype broader narrower isa"
)
PERSON_WORDS = _set(
    "person employee staff user member player worker people personnel teacher doctor physician "
    "instructor professor faculty"
)
ROLE_WORDS = _set(  # what a person is to a row: ids in such a column are of people
    "rep representative manager supervisor boss head lead leader chief captain coach agent owner "
    "author creator assignee assigned seller buyer reviewer editor approver requester reporter "
    "officer technician operator handler clerk instructor teacher advisor adviser tutor doctor "
    "physician nurse surgeon driver pilot host guide by contact"
)
OTHERS_WORDS = ROLE_WORDS | _set("vendor supplier customer client")  # whose name is not the row's
UPPER_WORDS = _set("parent superclass supertype ancestor hypernym broader")
LOWER_WORDS = _set("child subclass subtype descendant hyponym narrower")
_ASKED = ("is", "has", "can", "was", "had")  # begin the name of a column of yes and no
_STATE = ("active", "available", "flag", "enabled", "optional")
_COUNTS = _set(  # end the name of a column of numbers, though it has 0 and 1 alone
    "number count size amount total sum level grade score rank rate code index id year month day "
    "version position order quantity share ratio percent type kind class group label target value "
    "bit digit phase stage step round half floor zone sex gender"
)
HEADS = ("subject", "source", "head", "from", "start", "src", "node1", "entity1")
TAILS = ("object", "target", "tail", "to", "end", "dst", "node2", "entity2")
"""What the two ends of an edge are called, pair by pair, the likeliest first."""
CLASS_WORDS = _set("kind type class")
_NO_CLASS = _set("list data info information table tbl")  # say of a table that it is one
THING_WORDS = _set(  # columns whose values are things even where few of them repeat
    "city town country state region province county continent language nationality genre category "
    "brand manufacturer publisher author artist director composer department team league club "
    "company organisation organization employer school university currency profession occupation "
    "religion species family venue location place station airport district owner"
)


def words(name: str) -> list[str]:
    """Split a column's or table's name into lowercase words, with abbreviations expanded.

    >>> words("unitsInStock"), words("customerID"), words("ACTED_IN")
    (['units', 'in', 'stock'], ['customer', 'id'], ['acted', 'in'])
    >>> words("cust_nm"), words("dt_hired"), words("orderdetails")
    (['customer', 'name'], ['date', 'hired'], ['order', 'details'])
    """
    return list(_split_words(name))


@lru_cache(4_096)  # names of columns are compared with each other
def _split_words(name: str) -> tuple[str, ...]:
    """Split a name into words; see :func:`words`."""
    found = [word.lower() for word in _WORD.findall(name)] or [name.lower()]
    single = [word for part in found for word in split_joined(part)]
    return tuple(word for part in single for word in ABBREVIATIONS.get(part, part).split(" "))


def shortens(short: str, word: str) -> bool:
    """Return whether ``short`` is the first letter and some later ones of ``word``, in order.

    >>> shortens("vsl", "vessel"), shortens("ps", "pollingstation"), shortens("dt", "hired")
    (True, True, False)
    """
    if not 1 < len(short) < len(word) or short[0] != word[0]:
        return False
    letters = iter(word)
    return all(letter in letters for letter in short)


def spoken(name: str) -> str:
    """Return a name in words: ``shipVia`` is "ship via", ``customerID`` is "customer id"."""
    return " ".join(words(name))


def says_whether(name_words: list[str]) -> bool:
    """Return whether a column of 0 and 1 with that name is boolean: ``discontinued``."""
    return name_words[0] in _ASKED or name_words[-1] in _STATE or name_words[-1].endswith("ed")


def says_how_many(name_words: list[str]) -> bool:
    """Return whether a column of 0 and 1 with that name may be a count: ``goals``, ``level``.

    >>> says_how_many(["goals"]), says_how_many(["chocolate"]), says_how_many(["group", "size"])
    (True, False, True)
    """
    last = name_words[-1]
    return last in _COUNTS or stem(last) != last


def relation_of(name: str) -> str:
    """Return the relation of a column that points to entities: ``customerID`` is "customer"."""
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
    """Return the words for one row of a table: ``order-details`` is order, detail."""
    name_words = words(name)
    while len(name_words) > 1 and name_words[-1] in _NO_CLASS:
        name_words.pop()
    return [*name_words[:-1], singular(name_words[-1])]


def type_name(name_words: list[str]) -> str:
    """Return the name of a type in the style of labels: ``OrderDetail``."""
    return "".join(word[:1].upper() + word[1:] for word in name_words)


_HEAD = """\
# How tables were read as a graph. Edit it, and load again with: --mapping mapping.toml
# A table: type, key, name (columns), types (columns whose cells are further types), or
# edge = { relation, head, tail } for a table whose rows are edges.
# A column: property and type, unit (of amounts, said and left out), decimal (","), form (of dates:
# "%d/%m/%Y"); relation and to ("table.column") or thing (a type: each value is a thing of its own)
# and called (the column with their names); split: what separates the members of a list; skip = true
# leaves it out.
"""


class _MappingPart(BaseModel):
    """A part of the mapping file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def entries(self) -> dict[str, Any]:
        """Return the fields that are set, as TOML entries."""
        return {name: value for name, value in self.model_dump().items() if value}


class ColumnMapping(_MappingPart):
    """The meaning of a column: a property of the row, or an edge from it."""

    property: str = ""
    type: ValueType | None = None
    unit: str = ""  # of the cells' amounts, which are numbers in the graph: "€"
    decimal: Literal["", ",", "."] = ""  # what stands before the decimals of amounts
    form: str = ""  # of dates that are not ISO 8601: "%d.%m.%Y"
    relation: str = ""
    to: str = ""  # "table.column", or "(space)" of a neo4j-admin header
    thing: str = ""
    called: str = ""  # the column that says what each of these things is called
    split: str = ""
    skip: bool = False


class EdgeMapping(_MappingPart):
    """The ends of a table of edges; ``types``: a column that holds relations."""

    relation: str = ""
    head: str
    tail: str
    types: str = ""


class TableMapping(_MappingPart):
    """The meaning of a table: entities of a type, edges, or both (rows with and without ends)."""

    type: str = ""
    key: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    space: str | None = None  # stands before keys in ids; the type by default
    edge: EdgeMapping | None = None
    columns: dict[str, ColumnMapping] = {}

    @property
    def prefix(self) -> str:
        """The text before a key in an entity's id."""
        space = self.type if self.space is None else self.space
        return f"{space}/" if space else ""


_TABLES = TypeAdapter(dict[str, TableMapping])


def read_mapping(path: Path) -> dict[str, TableMapping]:
    """Read a mapping file; return the mapping by table. Raises UsageError with its first fault."""
    try:
        return _TABLES.validate_python(read_settings(path))
    except OSError as error:
        raise UsageError(f"The mapping {path} cannot be read: {error.strerror}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"The mapping {path} does not fit at {where}: {first['msg']}.",
            "The first lines of a mapping.toml that a load wrote say what may stand where.",
        ) from None
    except ValueError as error:
        raise UsageError(f"The mapping {path} is not TOML: {error}.", "Mend it.") from None


def written(tables: dict[str, TableMapping]) -> str:
    """Format a mapping as TOML, a line for each column."""
    lines = [_HEAD]
    for name, table in tables.items():
        lines.append(f"[{toml_key(name)}]")
        entries = table.entries() | ({"space": ""} if table.space == "" else {})
        lines += [
            f"{key} = {toml_value(value)}" for key, value in entries.items() if key != "columns"
        ]
        lines += ["", f"[{toml_key(name)}.columns]"]
        lines += [
            f"{toml_key(key)} = {toml_value(each.entries())}" for key, each in table.columns.items()
        ]
        lines.append("")
    return "\n".join(lines)


def found_by(table: TableMapping) -> str:
    """Return a sentence part on a table of entities: its key, and its columns of names."""
    key = f"key {', '.join(table.key)}" if table.key else "no key"
    types = f"types by {', '.join(table.types)}, " if table.types and not table.type else ""
    return f"{types}{key}, called by {' '.join(table.name) or 'type and key'}"


_TYPES: dict[str, ValueType] = {
    **dict.fromkeys(("int", "long", "byte", "short", "integer"), "integer"),
    **dict.fromkeys(("float", "double"), "float"),
    "boolean": "boolean",
    "date": "date",
    **dict.fromkeys(("localtime", "time"), "time"),
    **dict.fromkeys(("localdatetime", "datetime"), "datetime"),
    "duration": "duration",
    "point": "point",
    **dict.fromkeys(("string", "char"), "text"),
}
_ROLES = ("ID", "LABEL", "START_ID", "END_ID", "TYPE", "IGNORE")
_FIELD = re.compile(
    rf"(?P<name>[^:]*):(?:(?P<role>{'|'.join(_ROLES)})|(?P<type>{'|'.join(_TYPES)}))"
    r"(?P<many>\[\])?(?:\((?P<space>[^)]*)\))?(?:\{[^}]*\})?",
    re.IGNORECASE,
)
_APOC = {"_id": "ID", "_labels": "LABEL", "_start": "START_ID", "_end": "END_ID", "_type": "TYPE"}
_CALLED = ("name", "title", "label", "fullname", "full_name")
ARRAY = ";"  # what separates the members of an array, and labels


def from_header(table: str, header: Sequence[str]) -> TableMapping | None:
    """Return the mapping that a table's header fully specifies, None if it does not."""
    roles: dict[str, tuple[str, str]] = {}  # role -> (column, id space)
    columns: dict[str, ColumnMapping] = {}
    for column in header:
        match = _FIELD.fullmatch(column)
        role = _APOC.get(column) or (match["role"] or "").upper() if match else _APOC.get(column)
        name = match["name"] if match else ""
        if role == "IGNORE":
            columns[column] = ColumnMapping(skip=True)
        elif role:
            roles[role] = (column, (match["space"] or "") if match else "")
            columns[column] = ColumnMapping(property=name, type="text" if name else None)
        elif match:
            split = ARRAY if match["many"] else ""
            kind = _TYPES[match["type"].lower()]
            columns[column] = ColumnMapping(property=name, type=kind, split=split)
        else:
            columns[column] = ColumnMapping(property=column, type="text")
    if not roles.keys() & {"ID", "START_ID"}:
        return None
    edge = None
    if "START_ID" in roles and "END_ID" in roles:
        (head, from_), (tail, to) = roles["START_ID"], roles["END_ID"]
        types = roles.get("TYPE", ("", ""))[0]
        edge = EdgeMapping(
            relation="" if types else " ".join(words(table)), head=head, tail=tail, types=types
        )
        columns[head] = ColumnMapping(to=f"({from_})")
        columns[tail] = ColumnMapping(to=f"({to})")
    if "ID" not in roles:
        return TableMapping(edge=edge, columns=columns)
    key, space = roles["ID"]
    labels = roles.get("LABEL", ("", ""))[0]
    by_name = {each.property.lower(): column for column, each in columns.items() if each.property}
    name = next((by_name[called] for called in _CALLED if called in by_name), "")
    return TableMapping(
        type="" if labels else type_name(type_words(table)),
        key=(key,),
        name=(name,) if name else (),
        types=(labels,) if labels else (),
        space=space,
        edge=edge,
        columns=columns,
    )
