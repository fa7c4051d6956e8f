"""A question's own graph as a store in a temporary folder, asked as a loaded KG is.

Entities are their names; one shaped like a Freebase mid (``m.0abc``) is a mediator.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgqa.graph.model import (
    ENTITY_SCHEMA,
    KEYED_EDGE_SCHEMA,
    RELATION_SCHEMA,
    GraphTables,
    KGInfo,
    Kind,
)
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.questions.base import Question, Triple

_MID = re.compile(r"[mg]\.[0-9a-z_]+")


def own_tables(name: str, triples: Iterable[Triple], entities: Iterable[str]) -> GraphTables:
    """Return a graph of named triples as tables; ``entities`` are in it whatever their shape."""
    unique = sorted(set(triples))
    kept = set(entities)
    nodes = sorted({end for head, _, tail in unique for end in (head, tail)})
    relations = sorted({relation for _, relation, _ in unique})
    nameless = [one not in kept and _MID.fullmatch(one) is not None for one in nodes]
    key = {one: number for number, one in enumerate(nodes)}
    relation_key = {one: number for number, one in enumerate(relations)}
    # keys are ranks, so triples sorted by their texts are sorted by their keys
    columns = np.array(
        [(key[head], relation_key[relation], key[tail]) for head, relation, tail in unique],
        np.int64,
    ).reshape(-1, 3)
    digest = hashlib.sha256("\n".join("\t".join(triple) for triple in unique).encode())
    info = KGInfo(
        name=name,
        source="a question's own graph",
        version=digest.hexdigest(),
        direction="out",
        entities=len(nodes) - sum(nameless),
        mediators=sum(nameless),
        values=0,
        relations=len(relations),
        edges=len(unique),
    )
    kinds = [Kind.MEDIATOR if one else Kind.ENTITY for one in nameless]
    names = [None if less else one for one, less in zip(nodes, nameless, strict=True)]
    no_texts: list[list[str]] = [[] for _ in nodes]
    return GraphTables(
        info,
        pa.table(
            [nodes, names, no_texts, [int(kind) for kind in kinds], no_texts, [None] * len(nodes)],
            schema=ENTITY_SCHEMA,
        ),
        pa.table([relations, relations, [None] * len(relations)], schema=RELATION_SCHEMA),
        pa.table([*columns.T, pa.nulls(len(unique), pa.string())], schema=KEYED_EDGE_SCHEMA),
    )


@contextmanager
def own_store(question: Question, name: str = "own") -> Iterator[GraphStore]:
    """Open the question's own graph for a ``with``. Raises DataError, GraphError."""
    if question.graph is None:
        raise ValueError(f"question {question.id} has no graph of its own")
    kept: Sequence[str] = [*question.topic_entities, *question.answers]
    tables = own_tables(name, question.graph.triples(), kept)
    with tempfile.TemporaryDirectory(prefix="kgqa-") as folder:
        path = Path(folder) / "graph.sqlite"
        SqliteWriter(path).write(tables, Silent())
        with SqliteStore(path, name=name) as store:
            yield store
