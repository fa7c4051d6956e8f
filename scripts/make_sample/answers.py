"""Writes question files whose answers are exactly what their relation paths lead to."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Edges = dict[tuple[str, str], list[str]]  # node, relation → ends


def index(triples: Iterable[tuple[str, str, str]], *, backwards: bool) -> Edges:
    """Return what every relation leads to, ``^relation`` too where walks go both ways."""
    edges: Edges = defaultdict(list)
    for head, relation, tail in sorted(set(triples)):
        edges[head, relation].append(tail)
        if backwards:
            edges[tail, f"^{relation}"].append(head)
    return edges


def ends(edges: Edges, topic: str, path: list[str]) -> list[str]:
    """Return where the relation path leads; a mediator stands between the halves of a hop."""
    front: set[tuple[str, ...]] = {(topic,)}
    for hop in path:
        walked: set[tuple[str, ...]] = set()
        for way in front:
            nodes = {way[-1]}
            for half in hop.split(".."):
                nodes = {end for node in nodes for end in edges.get((node, half), [])}
            walked |= {(*way, node) for node in nodes if node not in way}
        front = walked
    return sorted({way[-1] for way in front})


def write_questions(
    source: Path,
    target: Path,
    prefix: str,
    edges: Edges,
    topic_of: Callable[[str], str],
    written: Callable[[str], str] = str,
) -> None:
    """Write a question file from lines of question, topic and relation path (empty: none)."""
    rows = []
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), start=1):
        question, named, relations = line.split("\t")
        topic, path = topic_of(named), relations.split()
        answers = ends(edges, topic, path) if path else []
        if path and not answers:
            raise SystemExit(f"{question}: no path gives an answer.")
        row = {
            "id": f"{prefix}-{number}",
            "question": question,
            "topic_entities": [topic],
            "answers": [written(answer) for answer in answers],
            "hops": len(path),
            "relation_path": path,
        }
        rows.append(json.dumps(row, ensure_ascii=False))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(row + "\n" for row in rows), encoding="utf-8")
