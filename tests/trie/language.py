"""Plain-Python references for the path language, and a tokenizer small enough to reason about."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from kgqa.graph.model import DIRECTIONS, Kind
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from tests.graph.tables import entity, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import GraphTables
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import PathTable
    from kgqa.trie.constraint import Constraint
    from kgqa.trie.lexicon import PathLexicon

IdPath = tuple[int, tuple[tuple[int, int, int, int], ...]]


class CharacterEncoder:
    """One token a character; 0 ends a text. ``<a>`` and ``</a>`` are its only markers."""

    fingerprint = "characters"
    splits_at_spaces = True
    vocab_size = 0x110000 + 3
    eos_id = 0

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[ord(character) + 3 for character in text] for text in texts]

    def marker_id(self, marker: str) -> int | None:
        return {"<a>": 1, "</a>": 2}.get(marker)

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(token - 3) for token in ids if token > 2)


class PairEncoder(CharacterEncoder):
    """One token for two characters: a part of odd length shifts what comes after it."""

    fingerprint = "pairs"
    splits_at_spaces = False
    vocab_size = 1 << 31

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        pairs = [[text[at : at + 2] for at in range(0, len(text), 2)] for text in texts]
        return [
            [3 + sum(ord(one) << 12 * at for at, one in enumerate(pair)) for pair in row]
            for row in pairs
        ]

    def decode(self, ids: Sequence[int]) -> str:
        numbers = [part for token in ids if token > 2 for part in divmod(token - 3, 1 << 12)[::-1]]
        return "".join(chr(number) for number in numbers if number)


def brute_force(tables: GraphTables, topic: int, rules: WalkRules) -> set[IdPath]:
    """Every path out of ``topic``, by the definition."""
    kinds = tables.nodes["kind"].to_pylist()
    out: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for edge in tables.edges.select(["head", "relation", "tail"]).to_pylist():
        head, relation, tail = edge["head"], edge["relation"], edge["tail"]
        if rules.direction in ("out", "both"):
            out[head].append((2 * relation, tail))
        if rules.direction in ("in", "both"):
            out[tail].append((2 * relation + 1, head))

    def hops(node: int) -> Iterator[tuple[int, int, int, int]]:
        for step, target in out[node]:
            if rules.mediators == "keep" or kinds[target] != Kind.MEDIATOR:
                yield step, -1, -1, target
                continue
            for second, beyond in out[target]:
                if kinds[beyond] != Kind.MEDIATOR:
                    yield step, target, second, beyond

    found: set[IdPath] = set()

    def go(taken: tuple[tuple[int, int, int, int], ...], visited: frozenset[int]) -> None:
        at = taken[-1][3] if taken else topic
        if len(taken) == rules.hops or kinds[at] == Kind.VALUE:
            return
        for hop in hops(at):
            nodes = [node for node in (hop[1], hop[3]) if node >= 0]
            if len(set(nodes)) < len(nodes) or visited & set(nodes):
                continue
            found.add((topic, (*taken, hop)))
            go((*taken, hop), visited | set(nodes))

    go((), frozenset([topic]))
    return found


def id_paths(table: PathTable) -> list[IdPath]:
    """The rows of a table in the form of ``brute_force``."""
    return [
        (int(topic), tuple(tuple(hop) for hop in hops[:length].tolist()))
        for topic, length, hops in zip(table.topic, table.length, table.hops, strict=True)
    ]


def text_of(tables: GraphTables, path: IdPath, form: PathFormat) -> str:
    """The text of an id path, by the definition."""
    return form.separator.join(parts_of(tables, path, form))


def tokens_of(tables: GraphTables, path: IdPath, lexicon: PathLexicon) -> tuple[int, ...]:
    """The tokens of an id path, by the definition: those of its parts, joined."""
    parts = parts_of(tables, path, lexicon.form)
    return tuple(lexicon.sequence(parts[0], list(zip(parts[1::2], parts[2::2], strict=True))))


def parts_of(tables: GraphTables, path: IdPath, form: PathFormat) -> list[str]:
    """Names and relations of an id path, by turns."""
    ids, names = tables.nodes["id"].to_pylist(), tables.nodes["name"].to_pylist()
    relations = tables.relations["name"].to_pylist()

    def step(number: int) -> str:
        return (form.inverse if number % 2 else "") + relations[number // 2]

    parts = [names[path[0]] or ids[path[0]]]
    for first, _, second, tail in path[1]:
        parts.append(
            step(first) if second in (-1, first) else step(first) + form.joiner + step(second)
        )
        parts.append(names[tail] or ids[tail])
    return parts


def language(constraint: Constraint) -> dict[tuple[int, ...], list[IdPath]]:
    """Every sequence the constraint accepts, with what it grounds to."""
    found: dict[tuple[int, ...], list[IdPath]] = {}
    waiting = [(constraint.start(), ())]
    while waiting:
        states = [state for state, _ in waiting]
        moves = constraint.expand(states)
        following = []
        for row, token, state in zip(moves.row, moves.token, moves.state, strict=True):
            tokens = (*waiting[row][1], int(token))
            if constraint.is_end([int(state)])[0]:
                assert tokens not in found, "two states for one sequence"
                found[tokens] = id_paths(constraint.ground(int(state)))
            else:
                following.append((int(state), tokens))
        dead = set(range(len(waiting))) - set(moves.row.tolist())
        assert not dead, "a state that is not an end has no continuation"
        waiting = following
    return found


# names that share, that are prefixes of each other, that hold the separator or a relation
NAMES = ["a", "ab", "a -> r -> b", "b", "a ->", " a", "b -> r"]
RELATIONS = ["r", "r.s", "r -> a", "s"]


@st.composite
def graphs(draw: st.DrawFn) -> GraphTables:
    count = draw(st.integers(2, 7))
    kinds = draw(st.lists(st.sampled_from([0, 0, 0, 1, 1, 2]), min_size=count, max_size=count))
    kinds[0] = 0
    names = draw(st.lists(st.sampled_from(NAMES), min_size=count, max_size=count))
    nodes = [
        entity(f"n{at}", None if kind == Kind.MEDIATOR else name, kind=Kind(kind))
        for at, (kind, name) in enumerate(zip(kinds, names, strict=True))
    ]
    node = st.integers(0, count - 1).map(lambda at: f"n{at}")
    edges = draw(
        st.lists(st.tuples(node, st.sampled_from(RELATIONS), node), min_size=1, max_size=14)
    )
    return tables_of(nodes, edges)


def rules_up_to(hops: int) -> st.SearchStrategy[WalkRules]:
    """Any rules of walks of at most so many hops."""
    return st.builds(
        WalkRules,
        hops=st.integers(1, hops),
        direction=st.sampled_from(DIRECTIONS),
        mediators=st.sampled_from(["collapse", "keep"]),
    )


rules_of = rules_up_to(4)


def store_of(tables: GraphTables, folder: Path) -> SqliteStore:
    """Write the tables into a folder, and open the store."""
    path = folder / "graph.sqlite"
    SqliteWriter(path).write(tables, Silent())
    return SqliteStore(path)
