"""What tables mean as a graph, found from names and values: keys, names, links, types.

- A *key* is a column without repetition, called ``id``, after its table or like a code.
- A column *points to* another table if it is called after it and half its values are there, or if
  it holds text and nearly all its values are that table's keys or names. Numbers alone never
  decide: every small number is a key of most tables. Ids of a role (``SupportRepId``) are of people
  where exactly one other table is of people.
- A table with two such columns and no key of its own holds *edges*; the rest are their properties.
- Text whose values repeat, or are towns, genres or similar by the column's name, are *things*.

All is written down to be corrected (see :mod:`kgqa.loaders.tabular_mapping`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, takewhile
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kgqa.lexicon.english import bearer_of_name, parts_of_name
from kgqa.lexicon.english import words as said
from kgqa.loaders.tabular_mapping import (
    CLASS_WORDS,
    HEADS,
    ID_WORDS,
    LINK_WORDS,
    LOWER_WORDS,
    OTHERS_WORDS,
    PERSON_WORDS,
    ROLE_WORDS,
    SELF_WORDS,
    TAILS,
    THING_WORDS,
    UPPER_WORDS,
    ColumnMapping,
    EdgeMapping,
    TableMapping,
    from_header,
    relation_of,
    says_how_many,
    says_whether,
    shortens,
    singular,
    type_name,
    type_words,
    words,
)
from kgqa.loaders.tabular_values import (
    LONG,
    all_match,
    amounts_of,
    date_form,
    is_blob,
    members,
    separator,
    value_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.graph.schema import ValueType
    from kgqa.loaders.tabular_table import Table

_SHORT = 40  # characters on the mean; longer text does not name a thing
_NAMED_LINK = 0.5  # share of values that must be there where the name says where a column points
_LINK = 0.95  # the same where only the values say it
_SAME_NAME = 0.75  # the same where both columns have one name
_NO_NAMES = ID_WORDS | {"url", "uri", "link", "slug", "path", "file", "email", "type"}
_GENERIC = frozenset(  # names of columns that say nothing of the table
    ["id", "name", "title", "key", "code", "identifier", "label", "slug", "uid", "uuid"]
)
_NAME_ONCE = 0.9  # share of names that must differ
_SHARED_THINGS = 0.3  # share of the fewer values of two columns from which they hold one kind
_FEW_IDS = 2  # that may have a name each by chance
_CLASSES = 30  # values of a column `kind` that are types
_WORDY = r"^[\p{L}\p{M}.,:'’&()/ +-]*\p{L}[\p{L}\p{M}.,:'’&() +-]*( \d{1,4})?$"  # Apollo 13
_PERSON = r"^\p{Lu}[\p{L}\p{M}.'’-]*( \p{Lu}[\p{L}\p{M}.'’-]*){1,3}$"
_FLAGGED = 10  # rows, from which a column of 0 and 1 alone says yes and no
_MOSTLY = 0.8
_NAME = 200  # characters of the longest name of a column
_MOST_DESCRIBED = 10_000  # rows of a data dictionary
_ENDS = dict(zip((*HEADS, *TAILS), (*TAILS, *HEADS), strict=True))
_TIMES = frozenset({"year", "month", "week", "day", "hour", "season"})


@dataclass(slots=True)
class _Column:
    """Statistics of a column's cells. ``values``: distinct ones; ``filled``: cells with a value."""

    name: str
    words: list[str]
    split: str
    values: pa.Array
    filled: int
    unique: bool  # every row has one, and no two the same
    kind: ValueType
    length: float  # characters on the mean
    blob: bool

    @property
    def is_name_like(self) -> bool:
        """Whether the values are single texts as short as names."""
        return self.kind == "text" and not self.split and self.length <= 2 * _SHORT

    @property
    def once(self) -> float:
        """The number of distinct values per filled cell: 1 if each value occurs once."""
        return len(self.values) / max(1, self.filled)

    def single_words(self) -> bool:
        """Whether most values are one word."""
        blanks = pc.match_substring(pc.utf8_trim_whitespace(self.values), " ")
        return bool((pc.mean(blanks.cast(pa.int8())).as_py() or 0) < 1 - _MOSTLY)

    def wordy(self) -> bool:
        """Whether most values are words, not codes, numbers or addresses."""
        return self._mostly(_WORDY)

    def of_people(self) -> bool:
        """Whether most values have the form of a forename and surname."""
        return self._mostly(_PERSON)

    def _mostly(self, pattern: str) -> bool:
        """Return whether most values match a pattern."""
        fits = pc.match_substring_regex(self.values, pattern)
        return bool((pc.mean(fits.cast(pa.int8())).as_py() or 0) >= _MOSTLY)

    def is_coded(self) -> bool:
        """Whether all values are texts with a digit and without spaces: ``001``, ``A-17``."""
        return self.kind == "text" and all_match(self.values, r"^\S*\d\S*$")


def _profile(table: Table, name: str) -> _Column:
    """Compute the statistics of a column: distinct values, type, lengths, lists in cells."""
    cells = table.columns[name]
    listed = pa.types.is_list(cells.type)
    texts = pc.unique(cells).drop_null() if not listed else pa.array([], pa.string())
    length = pc.mean(pc.utf8_length(texts)).as_py() or 0.0
    kind = value_type(texts)
    split = ""
    if listed or (kind == "text" and length <= LONG and (split := separator(texts))):
        _, pieces = members(cells, split)
        texts, filled = pc.unique(pieces), len(pieces)
        kind, length = value_type(texts), pc.mean(pc.utf8_length(texts)).as_py() or 0.0
    else:
        filled = len(cells) - cells.null_count
    if kind == "integer" and {*texts[:3].to_pylist()} <= {"0", "1"}:
        both = len(texts) == 2 and filled >= _FLAGGED and not says_how_many(words(name))
        kind = "boolean" if both or says_whether(words(name)) else kind
    if kind == "float" and said("codes").intersection(words(name)) and amounts_of(texts) is None:
        kind = "text"  # 1.10 and 1.1 are two versions
    if kind == "integer" and "date" in words(name) and date_form(texts):
        kind = "date"  # 20240131
    unique = not split and not listed and len(texts) == len(cells)
    mark = split or ("[]" if listed else "")
    return _Column(name, words(name), mark, texts, filled, unique, kind, length, is_blob(texts))


@dataclass(slots=True)
class _Plan:
    """The state of one table while its mapping is inferred: key, name and links found so far."""

    table: Table
    columns: dict[str, _Column]
    words: list[str]  # of its type
    key: tuple[str, ...] = ()
    strong: bool = False  # whether the key is one by its name, or declared
    name: tuple[str, ...] = ()
    links: dict[str, tuple[str, str]] = field(default_factory=dict)  # column -> (table, column)
    untold: dict[str, str] = field(default_factory=dict)  # column of ids -> type without a table
    labels: dict[str, str] = field(default_factory=dict)  # such a column -> the one of their names
    joins: bool = False

    @property
    def called(self) -> str:
        """The table's words joined to one."""
        return "".join(self.words)

    @property
    def ends(self) -> list[str]:
        """The columns that hold ids of entities (with or without a table), the ends of an edge."""
        return [name for name in self.columns if name in self.links or name in self.untold]


def infer(tables: Sequence[Table]) -> dict[str, TableMapping]:
    """Infer the mapping of each table, by table name.

    1. A header that specifies its columns fully (neo4j-admin's, APOC's) decides alone.
    2. Find each table's key, then its name columns.
    3. Find the columns that point to other tables.
    4. Tables with two links and no key become edges; others may get a key made of links.
    5. Find the columns whose values are entities without a table of their own.

    Keys of several columns are added to their tables as one column.
    """
    named = {table.name: table for table in tables}
    for table in tables:
        for name, (to, at) in table.foreign.items():
            if to in named:
                table.compose(name)
                named[to].compose(at)
    mapping = {
        t.name: table_mapping
        for t in tables
        if (table_mapping := from_header(t.name, list(t.columns)))
    }
    plans = {
        table.name: _Plan(
            table, {name: _profile(table, name) for name in table.columns}, type_words(table.name)
        )
        for table in tables
        if table.name not in mapping
    }
    for plan in plans.values():
        _find_key(plan, plans)
    for plan in plans.values():
        if not plan.key:
            _find_weak_key(plan, plans)
        plan.name = find_name(plan.columns, plan.words, plan.key)
    for plan in plans.values():
        _find_links(plan, plans)
    pointed = {to for plan in plans.values() for to, _ in plan.links.values()}
    for plan in plans.values():
        plan.joins = plan.table.name not in pointed and _is_join(plan, plans)
        if not plan.key and not plan.joins:
            plan.key = _key_of_links(plan)
    things = _thing_types(plans)
    taken: dict[str, str] = {}
    for plan in plans.values():
        mapping[plan.table.name] = _table_mapping(plan, plans, things, taken)
    return {table.name: mapping[table.name] for table in tables}


def describes_schema(table: Table, tables: Sequence[Table]) -> bool:
    """Return whether a table is a data dictionary: one of its columns lists others' column names.

    As entities its rows would have the columns' names, and questions would find them instead.
    """
    others = (name for other in tables if other is not table for name in other.columns)
    known = {" ".join(words(name)) for name in others}
    for column in table.columns.values():
        if not pa.types.is_string(column.type) or len(table) > _MOST_DESCRIBED:
            continue
        texts = pc.unique(column.drop_null()).to_pylist()
        named = {" ".join(words(text)) if len(text) <= _NAME else text for text in texts}
        if len(named) > 2 and len(named & known) >= _MOSTLY * len(named):
            return True
    return False


# -- keys and names -----------------------------------------------------------------------------


def _find_key(plan: _Plan, plans: dict[str, _Plan]) -> None:
    """Set the plan's key to the declared one, or to a unique column named as a key, if any."""
    if plan.table.key and all(name in plan.columns for name in plan.table.key):
        plan.key, plan.strong = plan.table.key, True
        return
    own = plan.called
    first = next(iter(plan.columns.values()))
    # a column called as the table is its key where no other is: the names of countries are not,
    # beside their codes
    for column in sorted(plan.columns.values(), key=lambda column: column.words == plan.words):
        joined = "".join(column.words)
        base = relation_of(column.name).replace(" ", "")
        is_id = (
            joined in ("id", "uid", "uuid", "key")
            or (base == own and (joined != own or not _is_other(column, plan, plans)))
            or (joined.endswith("id") and own.startswith(joined[:-2]))  # ``StuID`` of a student
            or (joined != base and shortens(base, own))  # ``vsl_no`` of a vessel
            or (joined == "code" and any(c.words == plan.words for c in plan.columns.values()))
        )
        if base != own and is_id and _is_key_of_other(base, plan, plans):
            continue  # ``film_id`` of a table ``film_category`` is of films
        is_measure = joined == own and column is not first and not column.wordy()
        if is_measure and first.unique and first.wordy():
            continue  # the ``score`` of a team in a table of scores
        if is_id and column.unique and column.kind not in ("float", "boolean"):
            plan.key, plan.strong = (column.name,), True
            return


def _is_other(column: _Column, plan: _Plan, plans: dict[str, _Plan]) -> bool:
    """Return whether a column has the name of another table, or of its key."""
    joined = "".join(column.words)
    base = relation_of(column.name).replace(" ", "")
    return any(
        base == other.called or (other.strong and joined == "".join(words(other.key[0])) != "id")
        for other in plans.values()
        if other is not plan
    )


def _is_key_of_other(base: str, plan: _Plan, plans: dict[str, _Plan]) -> bool:
    """Return whether ``base``, a column's name without ``id``, is another table's name."""
    return any(base == other.called for other in plans.values() if other is not plan)


def _find_weak_key(plan: _Plan, plans: dict[str, _Plan]) -> None:
    """Set the plan's key to a unique column: one with codes first, then one with names.

    Columns named as another table or as an end of edges are passed over; () if none is left.
    """
    best = (0, "")
    for place, column in enumerate(plan.columns.values()):
        if not column.unique or column.kind not in ("text", "integer") or len(column.values) < 2:
            continue
        if column.length > _SHORT or _is_other(column, plan, plans) or _is_end(column, plan, plans):
            continue
        code = column.words[-1] in ID_WORDS or column.words[-1] in ("isbn", "sku", "slug", "iban")
        named = column.words[-1] in ("name", "title")
        score = 4 if code and not place else 3 if code else 2 if named else 1 if not place else 0
        score += 5 * _is_referenced(column, plan, plans)
        if score > best[0]:
            best = (score, column.name)
    plan.key = (best[1],) if best[1] else ()


def _is_referenced(column: _Column, plan: _Plan, plans: dict[str, _Plan]) -> bool:
    """Return whether a column of another table has mostly values of this column.

    A column of the same name may have other values, too; one of another name must be text.
    """
    if "".join(column.words) in _GENERIC:
        return False
    return any(
        (other.words == column.words and _overlap(other, column) >= _SAME_NAME)
        or (
            (column.kind, other.kind) == ("text", "text")
            and len(other.values) > 1
            and _overlap(other, column) >= _LINK
        )
        for to in plans.values()
        if to is not plan
        for other in to.columns.values()
        if not other.unique or column.is_coded()
    )


def _overlap(column: _Column, target: _Column) -> float:
    """Return the fraction of a column's distinct values that ``target`` has."""
    if column.values.type != target.values.type or not len(column.values):
        return 0.0
    there = pc.sum(pc.is_in(column.values, value_set=target.values)).as_py() or 0
    return float(there / len(column.values))


def find_name(
    columns: dict[str, _Column], type_: Sequence[str], key: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the columns that name a row, () if there are none.

    ``type_``: the words for a row; ``key``: the table's key columns.
    """
    texts = [column for column in columns.values() if column.is_name_like and not column.blob]
    of_key = relation_of(key[0]).split() if len(key) == 1 else []
    places = parts_of_name([c.words for c in texts], lambda at: texts[at].single_words())
    parts = tuple(texts[at].name for at in places or ())
    if parts and {*bearer_of_name(columns[parts[1]].words, "last_name")} <= {*type_}:
        return parts
    for names, once in (
        ((["name"], ["title"], ["label"]), 0.5),
        ((["full", "name"], ["name", "full"], ["fullname"], ["display", "name"]), 0.5),
        (([*of_key, "name"], [*of_key, "label"], [*type_, "label"]), 0.5),
        (([*type_, "name"], [*type_, "title"], [type_[-1], "name"], list(type_)), _NAME_ONCE),
    ):
        for column in texts:
            fits = column.words in names and column.once >= once and column.filled
            if fits and not (column.words == [*type_] and column.is_coded()):
                return (column.name,)
    if parts:  # of another's, such as a customer's contact
        return parts
    for column in texts:  # ``ttl`` of a title
        if shortens("".join(column.words), "".join(type_)) and column.once >= _NAME_ONCE:
            return (column.name,)
    for column in texts:  # ``Name/Alias``, and ``Song Clean`` of a song
        begins = column.words[0] in ("name", "title", type_[-1]) and len(column.words) > 1
        if begins and column.once >= _NAME_ONCE and not _NO_NAMES.intersection(column.words):
            return (column.name,)
    for endings, most in (
        (("name", "title"), 2 * _SHORT),
        (("description", "designation", "caption", "heading", "headline", "meaning"), _SHORT),
        (("address",), _SHORT),
        (("model",), _SHORT),
    ):
        for column in texts:
            is_other = column.words[0] in ("contact", "file", "user", "email", "ip", "mac", "web")
            fits = column.words[-1] in endings and column.length <= most
            if fits and column.once >= _NAME_ONCE and not is_other:
                return (column.name,)
    unique = [
        column
        for column in texts
        if column.unique and column.wordy() and not OTHERS_WORDS.intersection(column.words)
    ]
    if len(key) == 1 and key[0] in columns and columns[key[0]].kind == "text":
        numbered = all_match(columns[key[0]].values, r"^\d+$")  # not A-17, by which people call it
        if numbered and len(unique) == 1:
            return (unique[0].name,)
        slugs = all_match(columns[key[0]].values, r"^[\d\p{Ll}.']+([-_][\d\p{Ll}.']+)+$")
        people = _people_in(texts) if slugs else []
        return (people[0].name,) if people else key
    unique = unique or _people_in(texts) or _nearly_unique(texts)[:1]
    shortest = min(unique, key=lambda column: column.length, default=None)
    return (shortest.name,) if shortest else ()


def _nearly_unique(texts: Sequence[_Column]) -> list[_Column]:
    """Return the columns of short texts, not codes, of which hardly any is in two rows: dishes."""
    filled = max((column.filled for column in texts), default=0)
    return [
        column
        for column in texts
        if column.once >= _NAME_ONCE
        and column.filled == filled
        and column.length <= _SHORT
        and not (column.is_coded() or column.single_words())
        and not (OTHERS_WORDS | _NO_NAMES).intersection(column.words)
    ]


def _people_in(texts: Sequence[_Column]) -> list[_Column]:
    """Return the columns with a person's name in each cell, hardly ever the same one twice."""
    return [
        column
        for column in texts
        if column.once >= _MOSTLY
        and not OTHERS_WORDS.intersection(column.words)
        and column.of_people()
    ]


# -- links --------------------------------------------------------------------------------------


def _find_links(plan: _Plan, plans: dict[str, _Plan]) -> None:
    """Set the plan's links: which columns point to which column of which table.

    Columns of ids of entities without a table are set in ``untold``, with the entities' type.
    """
    for name, (to, at) in plan.table.foreign.items():
        if name in plan.columns and to in plans and at in plans[to].columns:
            plan.links[name] = (to, at)
    for column in plan.columns.values():
        if column.name in plan.links or column.kind not in ("text", "integer"):
            continue
        if column.blob or column.length > _SHORT or not len(column.values):
            continue
        ranked = [
            (score, to.table.name, at)
            for to in plans.values()
            for at in dict.fromkeys((*to.key[: len(to.key) == 1], *to.name[: len(to.name) == 1]))
            if (to is not plan or at != column.name)
            and (score := _link_score(column, plan, to, to.columns[at], plans))
        ]
        if _is_level(column, plan) and (not ranked or max(ranked)[1] == plan.table.name):
            plan.untold[column.name] = type_name(plan.words)
        elif ranked:
            _, to_name, at = max(ranked)
            plan.links[column.name] = (to_name, at)
        elif people := _people_table(column, plan, plans):
            plan.links[column.name] = (people.table.name, people.key[0])
        elif _is_unlisted_ids(column, plan) and (pair := _common_target(column, plan, plans)):
            plan.links[column.name] = pair
        elif (label := _label_of(column, plan)) or _is_unlisted_ids(column, plan):
            if label:
                plan.labels[column.name] = label
            type_ = type_name(type_words(relation_of(column.name)))
            of_table = type_ in {type_name(other.words) for other in plans.values()}
            # what has a table of its own, which this id does not lead to, is not called as its rows
            plan.untold[column.name] = type_name(column.words) if of_table else type_


def _is_level(column: _Column, plan: _Plan) -> bool:
    """Return whether a column holds other entities of the table's type: a parent, a child.

    Not all of these need a row. They are above the key, or, without a key, above and below.
    """
    upper, lower = (
        next((c for c in plan.columns.values() if said.intersection(c.words)), None)
        for said in (UPPER_WORDS, LOWER_WORDS)
    )
    if not plan.key:
        both = upper is not None and lower is not None and upper is not lower
        return both and column in (upper, lower) and _is_short_text(column)
    if len(plan.key) > 1 or plan.name != plan.key or not _is_short_text(column):
        return False
    rows = plan.columns[plan.key[0]]
    is_self = column is upper or (SELF_WORDS.intersection(column.words) and _overlap(column, rows))
    return bool(is_self) and column is not rows and not _contains_all(rows, column)


def _common_target(column: _Column, plan: _Plan, plans: dict[str, _Plan]) -> tuple[str, str] | None:
    """Return the (table, column) that both columns of a table of pairs point to, None if not so.

    For instance courses, and the courses that they require.
    """
    other = next((column_name for column_name in plan.columns if column_name != column.name), "")
    if len(plan.columns) != 2 or other not in plan.links:
        return None
    to, at = plan.links[other]
    return (to, at) if _contains_all(plans[to].columns[at], column) else None


def _label_of(column: _Column, plan: _Plan) -> str:
    """Return the column of names for a column of repeated ids that have no table, "" if none.

    Each id has one name there: ``customer_name`` of ``customer_id``, or another column of names in
    which no two ids have one.
    """
    own = (*plan.key, *plan.name)
    is_code = len(column.words) > 1 and column.words[-1] in ID_WORDS and not _is_time(column)
    if not is_code or column.split or column.once == 1 or column.name in own:
        return ""
    base = column.words[:-1]
    for other in plan.columns.values():
        is_name = other.words[-1] in ("name", "title", "label") and other.kind == "text"
        if not is_name or other.split or other.name in (*own, *plan.labels.values()):
            continue
        pairs = pa.table([plan.table.columns[c.name] for c in (column, other)], names=["id", "at"])
        named = len(pairs.drop_null().group_by(["id", "at"]).aggregate([]))
        if named > len(column.values) or other.filled < _MOSTLY * column.filled:
            continue
        alone = len(other.values) == len(column.values) > _FEW_IDS
        if other.words[:-1] == base or (alone and not _names_other_ids(other, column, plan)):
            return other.name
    return ""


def _names_other_ids(label: _Column, column: _Column, plan: _Plan) -> bool:
    """Return whether ``label``, a column of names, belongs by its own name to other ids."""
    others = (c.words[:-1] for c in plan.columns.values() if c.words[-1] in ID_WORDS)
    return label.words[:-1] in [words_ for words_ in others if words_ != column.words[:-1]]


def _is_unlisted_ids(column: _Column, plan: _Plan) -> bool:
    """Return whether a column holds ids, some repeated, of entities that have no table."""
    is_id = len(column.words) > 1 and column.words[-1] in ("id", "uuid")
    return (
        is_id
        and not _is_time(column)
        and column.once < 1
        and column.name not in (*plan.key, *plan.name)
    )


def _is_time(column: _Column) -> bool:
    """Return whether a column named as an id holds years or months: ``yearID``."""
    return column.kind == "integer" and relation_of(column.name) in _TIMES


def _people_table(column: _Column, plan: _Plan, plans: dict[str, _Plan]) -> _Plan | None:
    """Return the only other table of people that has all ids of a column named by a role.

    None for another column, or if several tables are of people.
    """
    said = ROLE_WORDS.intersection(words(relation_of(column.name)))
    if not said or column.name in (*plan.key, *plan.name):
        return None
    others = [to for to in plans.values() if to is not plan and len(to.key) == 1]
    people = [to for to in others if to.words[-1] in PERSON_WORDS]
    people = people or [to for to in others if len(to.name) > 1]  # first and last names
    if not people and len(plan.key) == 1 and _are_people(plan):
        people = [plan]  # ``referred_by`` of a subscriber is another one
    if len(people) != 1:
        return None
    fits = _contains_all(people[0].columns[people[0].key[0]], column)
    return people[0] if fits else None


def _are_people(plan: _Plan) -> bool:
    """Return whether a table's name columns are those of people: forename and surname."""
    if len(plan.name) != 1:
        return len(plan.name) > 1
    return plan.columns[plan.name[0]].of_people()


def _contains_all(column: _Column, of: _Column) -> bool:
    """Return whether ``column`` has all values of the column ``of``."""
    if column.values.type != of.values.type:
        return False
    return bool(pc.all(pc.is_in(of.values, value_set=column.values)).as_py())


def _link_score(
    column: _Column, plan: _Plan, to: _Plan, target: _Column, plans: dict[str, _Plan]
) -> tuple[float, float, float] | None:
    """Score a column as a reference to ``target``: (name score, fraction of values there, used).

    None if it is not a reference. The last is the fraction of the target's values that the column
    uses.
    """
    hint = _name_score(column, plan, to, target, plans)
    own = (*plan.key, *plan.name)
    if column.name in own and (hint < 3 or to is plan):
        return None
    if (column.kind == "text") != (target.kind == "text") and hint < 2:
        return None
    if not target.filled or target.once < _NAME_ONCE:
        return None
    there = pc.sum(pc.is_in(column.values, value_set=target.values)).as_py() or 0
    share = there / len(column.values)
    coverage = there / len(target.values)
    if hint >= 2:
        is_upper = UPPER_WORDS.intersection(column.words)  # the head of a department is a doctor
        least = _NAMED_LINK if to is not plan or is_upper else _LINK
    elif hint > 1:
        least = _LINK
    elif hint == 1:
        least = 1.0
    else:
        least = _LINK if column.kind == "text" and len(column.values) > 1 else 2.0
        if to is plan and column.words[0] not in SELF_WORDS:
            least = 2.0
    return (hint, share, coverage) if share >= least else None


def _name_score(
    column: _Column, plan: _Plan, to: _Plan, target: _Column, plans: dict[str, _Plan]
) -> float:
    """Score how clearly a column's name says that it points to a table: 3 certain, 0 not at all.

    ``target``: the column of the table ``to`` that it would point to.
    """
    base = relation_of(column.name).replace(" ", "")
    joined = "".join(column.words)
    same = joined == "".join(target.words) and joined not in _GENERIC
    if to is plan:
        is_own = column.words[-1] in ID_WORDS and {*to.words} < {*column.words[:-1]}
        return 2 if is_own or SELF_WORDS.intersection(column.words) else 0  # ``part_of_id``
    if (column.name,) == plan.key and (target.name,) == to.key and plan.words[0] == to.words[0]:
        once = to.links.get(target.name) != (plan.table.name, column.name)
        return 3 * (once and column.values.sort() == target.values.sort())  # a row in two tables
    if (target.name,) == to.key and _is_end(column, plan, plans):
        return 2
    if base == to.called or joined == f"{to.called}id" or (same and to.strong):
        return 3
    if same and (target.name,) == to.key and column.words[-1] in ID_WORDS:
        return 2.5  # ``dept_id``, which is the key of departments
    if same and (target.name,) == to.key and _overlap(column, target) >= _SAME_NAME:
        return 2.5  # ``tailnum`` of a flight and of a plane
    of_key = relation_of(target.name).replace(" ", "")
    if (target.name,) == to.key and base == of_key and shortens(base, to.called):
        return 2.5  # ``vsl``, where the key of vessels is ``vsl_id``
    said = words(relation_of(column.name))
    is_number = column.kind == "integer" and column.words[-1] not in ID_WORDS
    ends = said[-len(to.words) :] == to.words or _is_name_end(base, to)
    if ends and not (is_number and _overlap(column, target) < _LINK):  # half are ids by chance
        return 2.5  # ``head_doctor_id`` of a department is a doctor, not another department
    if not is_number and (base.endswith(to.called) or to.words[-1] == said[-1]):
        return 1.5  # ``archetype_id`` is not the id of a type: only the values decide
    if any(len(word) > 3 and to.called.startswith(word) for word in column.words):
        return 1
    if column.words[-1] in ID_WORDS and column.kind == "integer" and len(column.words) > 1:
        return 1 if base[:4] == to.called[:4] else 0
    return 0


def _is_name_end(base: str, to: _Plan) -> bool:
    """Return whether ``base``, a column's name, is a table's name without its first words."""
    return to.called.endswith(base) and any(
        base == "".join(to.words[at:]) for at in range(1, len(to.words))
    )


def _is_end(column: _Column, plan: _Plan, plans: dict[str, _Plan]) -> bool:
    """Return whether a column is an end of edges, beside the other end and one table of nodes."""
    other = _ENDS.get(relation_of(column.name).replace(" ", "")) if len(plans) == 2 else None
    return other is not None and any(
        relation_of(name).replace(" ", "") == other for name in plan.columns
    )


def _is_join(plan: _Plan, plans: dict[str, _Plan]) -> bool:
    """Return whether a table's rows are edges: a unique pair of ends, and no key or name."""
    ends = plan.ends
    if len(ends) != 2 or any(plan.columns[name].split for name in ends):
        return False
    of_both = {word for to, _ in plan.links.values() for word in plans[to].words}
    parts = {part for name in ends for part in (name, *name.split("/"))}
    if plan.key and not set(plan.key) <= parts:
        between = set(map(singular, words(plan.table.name))) - of_both - LINK_WORDS
        if plan.key != ("id",) or between:
            return False
    if plan.name and not set(plan.name) <= {*ends, *plan.key}:
        return False
    pairs = pa.table([plan.table.columns[name] for name in ends], names=["head", "tail"])
    whole = pairs.drop_null()
    return len(whole.group_by(["head", "tail"]).aggregate([])) == len(whole)


def _key_of_links(plan: _Plan) -> tuple[str, ...]:
    """Return links as a key: one unique link, or all if unique together; () otherwise."""
    for name in plan.links:
        if plan.columns[name].unique:
            return (name,)
    if len(plan.links) < 2 or any(plan.columns[name].split for name in plan.links):
        return ()
    rows = pa.table([plan.table.columns[name] for name in plan.links], names=list(plan.links))
    if any(column.null_count for column in rows.columns):
        return ()
    distinct = len(rows.group_by(list(plan.links)).aggregate([]))
    return tuple(plan.links) if distinct == len(rows) else ()


# -- things, types and the rest -----------------------------------------------------------------


def _thing_types(plans: dict[str, _Plan]) -> dict[tuple[str, str], str]:
    """Return the type of the entities that a column's values are, by (table, column).

    Columns of other values, and types that are tables, are left out.
    """
    tables = {type_name(plan.words) for plan in plans.values() if not plan.joins}
    free = {
        (plan.table.name, column.name): column
        for plan in plans.values()
        for column in plan.columns.values()
        if column.name not in {*plan.ends, *plan.key, *plan.name, *plan.labels.values()}
        and not plan.joins
    }
    certain = {place for place, column in free.items() if _is_thing(column)}
    of_things = {tuple(free[place].words) for place in certain}
    said_of = {
        place: _thing_words(column)
        for place, column in free.items()
        if place in certain or (tuple(column.words) in of_things and _is_short_text(column))
    }
    alone = {said[-1] for said in said_of.values() if len(said) == 1} | THING_WORDS
    named = {
        place: type_name(said[-1:] if said[-1] in alone else said)
        for place, said in said_of.items()
    }
    for place, words_ in _common_kinds(said_of, free).items():
        if named[place] not in tables:
            named[place] = type_name(words_)
    return {place: type_ for place, type_ in named.items() if type_ not in tables}


def _common_kinds(
    said_of: dict[tuple[str, str], list[str]], free: dict[tuple[str, str], _Column]
) -> dict[tuple[str, str], list[str]]:
    """Return the shared noun of columns that hold one type of entity, by their values and words.

    ``pickup_zone`` and ``dropoff_zone`` are zones, ``placeOfBirth`` and ``placeOfDeath`` places.
    ``said_of``: the words of each (table, column); ``free``: the columns themselves.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for (one, first), (other, second) in combinations(said_of.items(), 2):
        kind = _head_noun(first)
        if first == second or min(len(first), len(second)) < 2 or kind != _head_noun(second):
            continue
        few, many = sorted((free[one], free[other]), key=lambda column: len(column.values))
        if _overlap(few, many) >= _SHARED_THINGS:
            found |= {one: kind, other: kind}
    return found


def _head_noun(said: list[str]) -> list[str]:
    """Return the head noun of a phrase, in a list: ``place`` of birth, pickup ``zone``."""
    return (said[: said.index("of")] if "of" in said[1:] else said)[-1:]


def _thing_words(column: _Column) -> list[str]:
    """Return the words for what a column's values are: ``publisher_name`` holds publishers."""
    said = type_words(relation_of(column.name))
    return said[:-1] if len(said) > 1 and said[-1] in ("name", "label") else said


def _is_short_text(column: _Column) -> bool:
    """Return whether a column holds short texts."""
    is_text = column.kind == "text" and not column.blob and column.filled > 0
    return is_text and column.length <= _SHORT


def _is_thing(column: _Column) -> bool:
    """Return whether a column's values are entities of their own, such as towns or genres."""
    if not _is_short_text(column) or column.words[-1] in CLASS_WORDS or column.length < 2:
        return False
    if _thing_words(column)[-1] in THING_WORDS:
        return True
    if column.words[-1] == "name":  # of what, the column does not say
        return False
    return len(column.values) * 2 <= column.filled and column.filled > 3 and column.wordy()


def _table_mapping(
    plan: _Plan,
    plans: dict[str, _Plan],
    things: dict[tuple[str, str], str],
    taken: dict[str, str],
) -> TableMapping:
    """Return the mapping of a table from its finished plan.

    ``things``: the type of the entities in each (table, column); ``taken``: the table that first
    got each type, which is filled here.
    """
    table = plan.table
    columns: dict[str, ColumnMapping] = {}
    types = []
    for column in plan.columns.values():
        columns[column.name] = said = _column_mapping(
            plan, plans, column, things.get((table.name, column.name))
        )
        if said == ColumnMapping(property=column.name, split=column.split):
            types.append(column.name)
    if plan.joins:
        head, tail = plan.ends
        kind = plans[plan.links[tail][0]].words if tail in plan.links else []
        short = shortens(relation_of(tail), "".join(kind))
        relation = _edge_relation(plan, plans, " ".join(kind) if short else relation_of(tail))
        return TableMapping(
            edge=EdgeMapping(relation=relation, head=head, tail=tail), columns=columns
        )
    type_ = type_name(plan.words)
    space = None if taken.setdefault(type_, table.name) == table.name else table.name
    return TableMapping(
        type=type_,
        key=plan.key,
        name=plan.name,
        types=tuple(types),
        space=space,
        columns=columns,
    )


def _column_mapping(
    plan: _Plan, plans: dict[str, _Plan], column: _Column, thing: str | None
) -> ColumnMapping:
    """Return the mapping of a column; one with a bare property if its values are types of rows.

    ``thing``: the type of the entities that its values are, if they are.
    """
    relation = relation_of(column.name)
    together = [set(name.split("/")) for name in plan.links if "/" in name]
    is_part = plan.joins and any(column.name in parts for parts in together)
    is_whole = "/" in column.name and {*column.name.split("/")} <= plan.columns.keys()
    of_thing = column.name in plan.labels.values()
    if column.blob or of_thing or (column.name not in plan.links and (is_part or is_whole)):
        return ColumnMapping(skip=True)
    if column.name in plan.links:
        to, at = plan.links[column.name]
        kind = plans[to].words
        if is_whole:
            relation = " ".join(dict.fromkeys([*_shared_words(column.name.split("/")), *kind]))
        begins = any(len(word) > 3 and "".join(kind).startswith(word) for word in column.words)
        if "".join(kind).startswith(relation) or shortens(relation, "".join(kind)):
            relation = " ".join(kind)  # ``StuID`` is of a student
        of_key = column.words == plans[to].columns[at].words
        if of_key and column.words[-1] in ("number", "no", "nr") and not begins:
            relation = " ".join(kind)  # ``atomic_number`` of an element: "atomic" names nothing
        own, other = {*relation.split()}, {*kind}
        if begins and not other <= own and not own <= other:  # ``shipVia`` does not name shippers
            relation = f"{relation} {' '.join(kind)}"
        kept = column.name if column.name in plan.key else ""
        return ColumnMapping(
            property=kept,
            type=column.kind if kept else None,
            relation="" if plan.joins else relation,
            to=f"{to}.{at}",
            split=column.split,
        )
    if thing := thing or plan.untold.get(column.name):
        said = "" if plan.joins else relation
        label = plan.labels.get(column.name, "")
        return ColumnMapping(relation=said, thing=thing, called=label, split=column.split)
    of_row = column.words[:-1] in ([], plan.words)  # ``blood_type`` is not a type of a patient
    if of_row and column.words[-1] in CLASS_WORDS and _is_type_column(column) and not plan.joins:
        return ColumnMapping(property=column.name, split=column.split)
    amounts = amounts_of(column.values) if column.kind in ("integer", "float") else None
    is_number = column.kind == "integer" and (column.name,) == plan.key
    # the ``flight`` of a flight is not how many there are
    counted = f"{column.name} number" if is_number and column.words == plan.words else ""
    called = relation_of(column.name) if _is_time(column) else column.name
    return ColumnMapping(
        property=counted or called,
        type=column.kind,
        unit=amounts.unit if amounts else "",
        decimal="," if amounts and amounts.decimal == "," else "",
        form=date_form(column.values) if column.kind in ("date", "datetime") else "",
        split=column.split,
    )


def _shared_words(names: Sequence[str]) -> list[str]:
    """Return the words with which all names begin: ``from_country``, ``from_city``."""
    first, *others = map(words, names)
    same = takewhile(
        lambda at: all(at[1] in other[at[0] : at[0] + 1] for other in others), enumerate(first)
    )
    return [word for _, word in same]


def _is_type_column(column: _Column) -> bool:
    """Return whether a column's values are several, and few enough to be types of its rows."""
    few = 1 < len(column.values) <= min(_CLASSES, max(2, column.filled // 2))
    return column.kind == "text" and few and column.length <= _SHORT


def _edge_relation(plan: _Plan, plans: dict[str, _Plan], tail: str) -> str:
    """Return the relation of a table of edges: its name without its ends' names, else ``tail``.

    ``tail``: the relation as the tail's column names it.
    """
    ends = {word for column in plan.ends for word in words(relation_of(column))}
    if ends & (UPPER_WORDS | LOWER_WORDS):
        return tail
    ends |= {word for to, _ in plan.links.values() for word in plans[to].words}
    said = _words_without(words(plan.table.name), ends)
    if not set(map(singular, said)) - LINK_WORDS:
        return tail
    return " ".join([*said[:-1], singular(said[-1])])


def _words_without(said: Iterable[str], ends: set[str]) -> list[str]:
    """Return the words that are not in ``ends``, in singular or plural."""
    return [word for word in said if not {word, singular(word)} & ends]
