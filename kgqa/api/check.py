"""Whether a statement is in the graph, and by which edges.

Names are compared as they are stored (in Unicode's NFC), values by value: -40 is not 40, and C is
not C++. What only the forgiving comparison of look-ups finds is near, and never found.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.display import read_name, shown_name
from kgqa.errors import UsageError
from kgqa.graph.amounts import number_in
from kgqa.graph.model import Kind, keys_array
from kgqa.graph.names import name_form
from kgqa.linking.resolve import resolve_entity
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import GroundedPath, ground
from kgqa.paths.walk import FIRST, SECOND, TAIL, PathTable, WalkRules, joined_tables, walk

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from kgqa.graph.store import GraphStore

Triple = tuple[str, str, str]
Row = tuple[int, int, tuple[int, ...]]  # an edge's keys of head and tail, and its hop
_MOST = 1_000  # paths of a statement whose names are shared
_MOST_EDGES = 200_000  # of all of them
_AT_ONCE = 1_000  # heads whose edges are read together
_LINE = 80  # characters of a malformed statement in an error
_QUOTED = re.compile(r'(?<![^.^])"(?:[^"\\]|\\.)*"(?=\.\.|$)')  # a half of a relation
_FORM = PathFormat()


@dataclass(frozen=True, slots=True)
class Check:
    """The result of looking a statement up in the graph; as a truth value, whether it is found.

    ``statement`` is the statement as text. ``paths`` are the paths that match it, each checked edge
    by edge; there may be several, because names may be shared, and because triples need not form
    one path. ``missing`` names the first edge that is not in the graph, and is empty if all edges
    are; ``near``: paths that match if case, punctuation and symbols (but not accents) are ignored.
    """

    statement: str
    paths: tuple[GroundedPath, ...]
    missing: str = ""
    near: tuple[GroundedPath, ...] = ()

    @property
    def found(self) -> bool:
        """Whether the whole statement is in the graph."""
        return bool(self.paths)

    def __bool__(self) -> bool:
        return self.found

    def to_dict(self) -> dict[str, Any]:
        """Return the check as ``kgqa check --json`` prints it."""
        paths, near = (
            [{"text": path.text, "edges": [edge.to_dict() for edge in path.edges]} for path in each]
            for each in (self.paths, self.near)
        )
        return {
            "statement": self.statement,
            "found": self.found,
            "missing": self.missing or None,
            "paths": paths,
            "near": near,
        }


def check(store: GraphStore, statement: Any) -> Check:
    """Look ``statement`` up in ``store``; see :meth:`kgqa.KG.check` for its forms.

    Raises UsageError for a malformed statement, EntityNotFoundError for a name that the KG lacks.
    """
    triples = triples_of(statement)
    at, parts = "", list[str]()
    for triple in triples:
        parts += [f"{' | ' * bool(parts)}{shown_name(triple[0])}"] if triple[0] != at else []
        parts.append(_tail_text(triple))
        at = triple[2]
    text = "".join(parts)
    exact, missing = _matching_paths(store, triples, exact=True)
    if missing is None:
        return Check(text, tuple(exact))
    near, not_near = _matching_paths(store, triples, exact=False)
    shown = shown_name(triples[missing][0]) + _tail_text(triples[missing])
    return Check(text, (), shown, tuple(near) if not_near is None else ())


def triples_of(statement: Any) -> list[Triple]:
    """Parse a statement (text, triples, or a path of an answer) into triples of texts.

    Raises UsageError if it is malformed.
    """
    if isinstance(statement, str):
        runs = [_parse_path(run) for run in statement.split(" | ")]
        found = [triple for run in runs for triple in run] if all(runs) else _parse_path(statement)
        if not found:
            raise UsageError(
                f"'{statement[:_LINE]}' is not a statement.",
                "Write it as: head -> relation -> tail.",
            )
        return found
    if groundings := getattr(statement, "groundings", None):  # a path of an answer
        statement = groundings[0]
    try:
        edges = statement["edges"] if isinstance(statement, dict) else None
        edges = getattr(statement, "edges", edges)
        if edges is not None:
            statement = [_triple_of_edge(edge) for edge in edges]
        rows = [statement] if isinstance(statement[0], str) else list(statement)
        return [(str(head), str(relation), str(tail)) for head, relation, tail in rows]
    except (TypeError, ValueError, IndexError, KeyError, AttributeError):
        raise UsageError(
            f"{repr(statement)[:_LINE]} is not a statement.",
            'Give a triple ("head", "relation", "tail"), a list of them, or a path as text.',
        ) from None


def _parse_path(text: str) -> list[Triple]:
    """Parse a path written as text into triples; [] if it is not one."""
    parts = [part.strip() for part in text.split(_FORM.separator.strip())]
    if len(parts) < 3 or len(parts) % 2 == 0 or not all(parts):
        return []
    names = [read_name(part) for part in parts]
    names[1::2] = [_QUOTED.sub(lambda match: read_name(match[0]), part) for part in parts[1::2]]
    return [(names[i], names[i + 1], names[i + 2]) for i in range(0, len(parts) - 2, 2)]


def _triple_of_edge(edge: Any) -> Triple:
    """Return an edge of a path, an object or JSON, as (head id, relation, tail id)."""
    if isinstance(edge, dict):
        return edge["head"]["id"], edge["relation"], edge["tail"]["id"]
    return edge.head.id, edge.relation, edge.tail.id


def _tail_text(triple: Triple) -> str:
    """Return a triple's relation and tail as they continue a path's text: `` -> r -> tail``."""
    halves = [
        f"^{shown_name(half[1:])}" if half.startswith("^") else shown_name(half)
        for half in triple[1].split(_FORM.joiner)
    ]
    return f" -> {_FORM.joiner.join(halves)} -> {shown_name(triple[2])}"


class _Names:
    """The entities that the texts of triples name: keys by text, and texts by key.

    Values are not in the index of names, so they are compared at the ends of edges.
    """

    def __init__(self, store: GraphStore, triples: Sequence[Triple], *, exact: bool) -> None:
        """Look up the names of all heads and tails; ``exact``: compare case and punctuation.

        A head that is not found exactly is resolved to a similar name. Raises EntityNotFoundError.
        """
        self._exact = exact
        names = list(dict.fromkeys(name for head, _, tail in triples for name in (head, tail)))
        keys = store.keys_of(names).tolist()
        self.keys = {
            name: {key} if key >= 0 else set() for name, key in zip(names, keys, strict=True)
        }
        forms = [name_form(name) for name in names]
        asked = [at for at, form in enumerate(forms) if form]
        rows, called = store.find_names([forms[at] for at in asked])
        labels = store.entities(called).names if len(called) else []
        known = set()
        for row, key, label in zip(rows.tolist(), called.tolist(), labels, strict=True):
            name = names[asked[row]]
            known.add(name)
            if not exact or self._is_called(store, key, label, name):
                self.keys[name].add(key)
        for name in dict.fromkeys(head for head, _, _ in triples):
            if not self.keys[name] and name not in known:
                self.keys[name].add(resolve_entity(store, name).key)  # spelt otherwise, or an error
        self.texts = defaultdict[int, list[str]](list)
        for name, meant in self.keys.items():
            for key in meant:
                self.texts[key].append(name)
        self.values = defaultdict[Any, list[str]](list)
        for name in dict.fromkeys(tail for _, _, tail in triples):
            self.values[self.value(name)].append(name)

    def value(self, text: str) -> Hashable:
        """Return the normal form of a value's text: equal for texts of one value.

        Numbers are compared as numbers; without ``exact``, case and punctuation are ignored.
        """
        number = number_in(text.strip().replace("\u2212", "-"))
        if number is not None and self._exact:
            return number
        return _nfc(text) if self._exact else name_form(text)

    def of_value(self, label: str, kind: int) -> Sequence[str]:
        """Return the statement's tails that mean the value ``label``; () if it is not a value.

        An entity of ``kind`` counts as a value if its name is a number.
        """
        value = self.value(label)
        there = kind == Kind.VALUE or not isinstance(value, str)
        return self.values.get(value, ()) if there else ()

    def relation(self, text: str) -> str:
        """Return the normal form of a relation's text, which keeps its direction."""
        if self._exact:
            return _nfc(text)
        halves = text.split(_FORM.joiner)
        return _FORM.joiner.join("^" * word.startswith("^") + name_form(word) for word in halves)

    @staticmethod
    def _is_called(store: GraphStore, key: int, label: str | None, name: str) -> bool:
        """Return whether an entity's name or an alias equals ``name`` in NFC."""
        if label is not None and _nfc(label) == _nfc(name):
            return True
        return any(_nfc(alias) == _nfc(name) for alias in store.details(key).aliases)


def _nfc(text: str) -> str:
    """Return a text in Unicode's NFC."""
    return unicodedata.normalize("NFC", text)


def _matching_paths(
    store: GraphStore, triples: Sequence[Triple], *, exact: bool
) -> tuple[list[GroundedPath], int | None]:
    """Find paths that match ``triples``; also return the index of the first unmatched triple.

    No paths are returned with an index; it is None if all match. A triple continues the one before
    if it begins with the entity at that one's end; else a new path begins.
    """
    names = _Names(store, triples, exact=exact)
    edges = _matching_edges(store, triples, names)
    runs: list[list[dict[int, list[Row]]]] = []
    ends: set[int] = set()
    before = ""
    for place, triple in enumerate(triples):
        head, _, tail = triple
        if not runs or (head != before and not ends & names.keys[head]):
            runs.append([])
            ends = names.keys[head]
        by_head = edges.get(triple, {})
        reached = {key: rows for key, rows in by_head.items() if key in ends}
        if not reached:
            return [], place
        runs[-1].append(reached)
        ends, before = {row[1] for rows in reached.values() for row in rows}, tail
    paths: list[GroundedPath] = []
    for run in runs:
        hops = list(_chains(run))
        table = PathTable(
            keys_array([path[0][0] for path in hops]),
            np.full(len(hops), len(run), np.int64),
            np.array([[row[2] for row in path] for path in hops], np.int64),
        )
        paths += [path for path in ground(store, table, _FORM) if path is not None]
    return paths, None


def _chains(run: Sequence[dict[int, list[Row]]]) -> Iterator[list[Row]]:
    """Yield the chains of edges through consecutive triples, up to a limit.

    ``run``: for each triple its edges, by the keys of their heads.
    """
    onward: list[dict[int, list[Row]]] = []
    for step in reversed(run):  # without what leads nowhere
        goes = onward[-1] if onward else None
        left = {
            key: [row for row in rows if goes is None or row[1] in goes]
            for key, rows in step.items()
        }
        onward.append({key: rows for key, rows in left.items() if rows})
    steps = onward[::-1]
    most = max(1, min(_MOST, _MOST_EDGES // len(steps)))
    stack = [iter([row for rows in steps[0].values() for row in rows])]
    path: list[Row] = []
    while stack and most:
        row = next(stack[-1], None)
        if row is None:
            stack.pop()
            path = path[:-1] if path else path
        elif len(stack) == len(steps):
            yield [*path, row]
            most -= 1
        else:
            path.append(row)
            stack.append(iter(steps[len(stack)][row[1]]))


def _matching_edges(
    store: GraphStore, triples: Sequence[Triple], names: _Names
) -> dict[Triple, dict[int, list[Row]]]:
    """Return the edges that match each triple, by the keys of their heads.

    Triples without such an edge are missing.
    """
    meant = defaultdict[tuple[str, str], dict[str, list[Triple]]](dict)
    for triple in dict.fromkeys(triples):
        head, relation, tail = triple
        meant[head, names.relation(relation)].setdefault(tail, []).append(triple)
    wanted = {relation for _, relation in meant}
    heads = {head for head, _ in meant}
    keys = np.unique(keys_array(sorted({key for head in heads for key in names.keys[head]})))
    relations = store.relations()
    edges = defaultdict[Triple, dict[int, list[Row]]](dict)
    for start in range(0, len(keys), _AT_ONCE):
        table = _hops_out_of(store, keys[start : start + _AT_ONCE])
        hop = table.hops[:, 0]
        pairs, row = np.unique(hop[:, (FIRST, SECOND)], axis=0, return_inverse=True)
        read = [
            {
                names.relation(_FORM.relation(first, second, texts))
                for texts in (relations.names, relations.ids)
            }
            & wanted
            for first, second in pairs.tolist()
        ]
        row = row.ravel()
        fits = np.flatnonzero(np.array([bool(reading) for reading in read], bool)[row])
        ends = store.entities(np.unique(hop[fits, TAIL]))
        texts_of = {
            key: [*names.texts.get(key, ()), *names.of_value(ends.label(at), ends.kinds[at])]
            for at, key in enumerate(ends.keys.tolist())
        }
        for at in fits.tolist():
            first, end = int(table.topic[at]), int(hop[at, TAIL])
            edge = (first, end, tuple(hop[at].tolist()))
            for text in dict.fromkeys(texts_of[end]):
                for name in names.texts[first]:
                    for relation in read[row[at]]:
                        for triple in meant.get((name, relation), {}).get(text, ()):
                            edges[triple].setdefault(first, []).append(edge)
    _add_loops(store, names, edges, dict.fromkeys(triples))
    return edges


def _add_loops(
    store: GraphStore,
    names: _Names,
    stored: dict[Triple, dict[int, list[Row]]],
    triples: Iterable[Triple],
) -> None:
    """Add to ``stored`` the edges of ``triples`` from an entity to itself, which walks omit."""
    loops = [
        (triple, key) for triple in triples for key in names.keys[triple[0]] & names.keys[triple[2]]
    ]
    if not loops:
        return
    relations = store.relations()
    steps = defaultdict[str, set[int]](set)
    for texts in (relations.names, relations.ids):
        for relation, text in enumerate(texts):
            steps[names.relation(text)].add(2 * relation)
            steps[names.relation(f"{_FORM.inverse}{text}")].add(2 * relation + 1)
    rows = [(loop, key, step) for loop, key in loops for step in steps[names.relation(loop[1])]]
    keys = keys_array([key for _, key, _ in rows])
    there = store.has_edges(keys, keys_array([step // 2 for _, _, step in rows]), keys)
    for loop, key, step in itertools.compress(rows, there.tolist()):
        stored.setdefault(loop, {}).setdefault(key, []).append((key, key, (step, -1, -1, key)))


def _hops_out_of(store: GraphStore, keys: Any) -> PathTable:
    """Return the hops out of ``keys``; a fact with properties is one hop through its mediator."""
    table, _ = walk(store, keys, WalkRules(1, "both", "collapse", types=True))
    through = table.take(np.flatnonzero(table.hops[:, 0, SECOND] >= 0))
    kept, _ = walk(store, keys, WalkRules(1, "both", "keep", types=True))
    return joined_tables([kept, through])
