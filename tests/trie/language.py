"""Plain-Python references for the path language, and a tokenizer small enough to reason about."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kgqa.graph.model import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.model import GraphTables
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import PathTable, WalkRules
    from kgqa.trie.constraint import Constraint

IdPath = tuple[int, tuple[tuple[int, int, int, int], ...]]


class CharacterEncoder:
    """One token a character; 0 ends a text. ``<a>`` and ``</a>`` are its only markers."""

    fingerprint = "characters"
    vocab_size = 0x110000 + 3
    eos_id = 0

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[ord(character) + 3 for character in text] for text in texts]

    def marker_id(self, marker: str) -> int | None:
        return {"<a>": 1, "</a>": 2}.get(marker)

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(token - 3) for token in ids if token > 2)


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
    ids, names = tables.nodes["id"].to_pylist(), tables.nodes["name"].to_pylist()
    relations = tables.relations["name"].to_pylist()

    def step(number: int) -> str:
        return (form.inverse if number % 2 else "") + relations[number // 2]

    parts = [names[path[0]] or ids[path[0]]]
    for first, _, second, tail in path[1]:
        parts.append(step(first) if second < 0 else step(first) + form.joiner + step(second))
        parts.append(names[tail] or ids[tail])
    return form.separator.join(parts)


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
        assert not dead, "a state that is no end has no continuation"
        waiting = following
    return found
