"""Questions that come with a graph (``q_entity``, ``a_entity``, ``graph``), and it as a store.

``webqsp-graph`` and ``cwq-graph`` are asked of the loaded KG; ``rog`` (RoG-webqsp and RoG-cwq, JSON
lines or Parquet) of each question's own graph, read from the file when it is asked.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from kgqa.errors import DataError, first_line
from kgqa.files import check_plain
from kgqa.graph.model import (
    ENTITY_SCHEMA,
    KEYED_EDGE_SCHEMA,
    RELATION_SCHEMA,
    GraphTables,
    KGInfo,
)
from kgqa.graph.model import Kind as NodeKind
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.progress import Silent
from kgqa.questions.base import Entry, Question, QuestionFormat, Triple, unreadable
from kgqa.questions.rows import (
    BOM,
    Chains,
    Id,
    JsonRows,
    Kind,
    Names,
    Row,
    Text,
    TextList,
    Texts,
    Triples,
    question_of,
    raw_lines,
    unique,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kgqa.graph.store import GraphStore

_PARQUET = b"PAR1"
_ROWS = 64  # of a Parquet file that are in memory at once
_ANSWER: TypeAdapter[list[str] | None] = TypeAdapter(Texts | None)
_PREDICATE = re.compile(r"\bns:([a-z][a-z0-9_]*(?:\.[a-z0-9_]+){2,})")


class _EntityRow(Row):
    """A question with topic and answer entities, by name and id."""

    by_name: ClassVar[bool] = False

    id: Id = ""
    question: Text
    type: Kind = ""
    q_entity: Names | None = None
    q_mid: TextList | None = None
    a_entity: Names | None = None
    a_mid: TextList | None = None
    answer: Any = None  # for rows without a_entity
    gold_chains: Chains | None = None
    sparql: Kind = ""

    def to_question(self) -> Question:
        """Convert the row to a question. Raises ValueError."""
        names: dict[str, str] = {}
        topics = self._entities("q_entity", self.q_entity, self.q_mid, names)
        answers = self._entities("a_entity", self.a_entity, self.a_mid, names)
        answers = _ANSWER.validate_python(self.answer) if answers is None else answers
        if answers is None:
            raise ValueError('"a_entity" is missing')
        return Question(
            id=self.id,
            question=self.question,
            topic_entities=topics or [],
            answers=answers,
            type=self.type,
            relation_paths=list(dict.fromkeys(map(tuple, self.gold_chains or ()))),
            names=names,
            predicates=unique(_PREDICATE.findall(self.sparql)),
        )

    def _entities(
        self, field: str, names: list[str] | None, ids: list[str] | None, noted: dict[str, str]
    ) -> list[str] | None:
        """Return ids if each name has one, adding the names to ``noted``; else unique names.

        None without names; with ``by_name``, names always. Raises ValueError for an empty name;
        ``field``: for its message.
        """
        if names is not None and ids is not None and len(ids) == len(names):
            if not self.by_name:
                noted.update((id_, name) for id_, name in zip(ids, names, strict=True) if name)
                return unique(ids)
            names = [name or id_ for id_, name in zip(ids, names, strict=True)]
        if names is not None and not all(names):
            raise ValueError(f'a text in "{field}" is empty')
        return None if names is None else unique(names)


class _RogRow(_EntityRow):
    """A question of RoG's data sets."""

    by_name = True
    graph: Triples


class GraphQuestions(JsonRows):
    """WebQSP or ComplexWebQuestions, each question with a graph; asked of a loaded KG."""

    row = _EntityRow


class RogQuestions(QuestionFormat):
    """The data sets of RoG and GCR: each question is asked of its own graph."""

    def read(self, path: Path) -> Iterator[Entry]:
        """Yield the questions of a file of JSON lines, or of a Parquet file."""
        try:
            check_plain(path)
            with path.open("rb") as file:
                head = file.read(len(_PARQUET))
        except OSError as error:
            raise unreadable(path, error) from None
        if head == _PARQUET:
            yield from _parquet_entries(path)
            return
        for number, offset, line in raw_lines(path):
            question = question_of(_RogRow, line)
            yield number, _with_graph(question, _StoredGraph(path, offset))


@dataclass(frozen=True, slots=True)
class _StoredGraph:
    """The graph of one question, by its position in a file."""

    path: Path
    start: int
    group: int | None = None

    def triples(self) -> list[Triple]:
        """Read the graph's triples from the file."""
        try:
            if self.group is None:
                with self.path.open("rb") as file:
                    file.seek(self.start)
                    return _RogRow.model_validate_json(file.readline().removeprefix(BOM)).graph
            with pq.ParquetFile(self.path) as parquet:
                row = parquet.read_row_group(self.group).slice(self.start, 1).to_pylist()[0]
            return _RogRow.model_validate(row).graph
        except (OSError, ValueError, IndexError, pa.ArrowException) as error:
            raise DataError(
                f"A question's graph can no longer be read from {self.path}: {error}.",
                "Leave the file as it is while its questions are answered.",
            ) from None


def _parquet_entries(path: Path) -> Iterator[Entry]:
    """Yield (number, question or fault) of a Parquet file's rows."""
    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for group in range(file.num_row_groups):
                place = 0
                for batch in file.iter_batches(_ROWS, row_groups=[group]):
                    for row in batch.to_pylist():
                        number += 1
                        question = question_of(_RogRow, row)
                        yield number, _with_graph(question, _StoredGraph(path, place, group))
                        place += 1
    except (OSError, pa.ArrowException, UnicodeDecodeError, OverflowError) as error:
        raise unreadable(path, first_line(error)) from None


def _with_graph(question: Question | str, graph: _StoredGraph) -> Question | str:
    """Attach a graph to a question; a fault stays a fault."""
    return question if isinstance(question, str) else replace(question, graph=graph)


_MID = re.compile(r"[mg]\.[0-9a-z_]+")


def own_tables(name: str, triples: Iterable[Triple], entities: Iterable[str]) -> GraphTables:
    """Build graph tables from named triples; ``entities`` are never taken for mediators."""
    unique = sorted(set(triples))
    kept = set(entities)
    nodes = sorted({end for head, _, tail in unique for end in (head, tail)})
    relations = sorted({relation for _, relation, _ in unique})
    nameless = [node not in kept and _MID.fullmatch(node) is not None for node in nodes]
    key = {node: number for number, node in enumerate(nodes)}
    relation_key = {relation: number for number, relation in enumerate(relations)}
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
    kinds = [NodeKind.MEDIATOR if is_mediator else NodeKind.ENTITY for is_mediator in nameless]
    names = [None if less else node for node, less in zip(nodes, nameless, strict=True)]
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
def own_store(question: Question) -> Iterator[GraphStore]:
    """Open a question's own graph as a store, as a context. Raises DataError, GraphError."""
    if question.graph is None:
        raise ValueError(f"question {question.id} has no graph of its own")
    kept: Sequence[str] = [*question.topic_entities, *question.answers]
    tables = own_tables("own", question.graph.triples(), kept)
    with tempfile.TemporaryDirectory(prefix="kgqa-") as folder:
        path = Path(folder) / "graph.sqlite"
        SqliteWriter(path).write(tables, Silent())
        with SqliteStore(path, name="own") as store:
            yield store
