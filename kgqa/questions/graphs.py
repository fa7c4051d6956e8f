"""Questions that come with a graph: ``q_entity``, ``a_entity`` and ``graph`` for each.

``webqsp-graph`` and ``cwq-graph`` are asked of the KG that was loaded, and their graphs are left
alone; ``rog`` (the published RoG-webqsp and RoG-cwq sets, JSON lines or Parquet) is asked of each
question's own graph. Such graphs are large: a question remembers where its graph stands in the
file, and reads it when it is asked. What it does not do: make a store of a graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgqa.errors import DataError
from kgqa.questions.base import (
    OwnGraph,
    Question,
    Triple,
    id_of,
    json_lines,
    json_object,
    raw_lines,
    text_of,
    texts_of,
    unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.questions.base import Read

_PARQUET = b"PAR1"
_ROWS = 64  # of a Parquet file that are in memory at once


def read_graph_questions(path: Path) -> Iterator[Read]:
    """Yield questions to be asked of a loaded KG. Raises DataError."""
    return json_lines(path, lambda row, number: _question(row, number, None))


def read_rog(path: Path) -> Iterator[Read]:
    """Yield questions, each with its own graph. Raises DataError."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_PARQUET))
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from None
    if head == _PARQUET:
        yield from _parquet(path)
        return
    for number, offset, line in raw_lines(path):
        try:
            row = json_object(line)
            _triples(row)
            yield number, _question(row, number, _OfLine(path, offset))
        except ValueError as error:
            yield number, str(error)


@dataclass(frozen=True, slots=True)
class _OfLine:
    path: Path
    offset: int

    def triples(self) -> list[Triple]:
        """Return the triples of the line's graph."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                return _triples(json_object(file.readline().removeprefix(b"\xef\xbb\xbf")))
        except (OSError, ValueError) as error:
            raise _changed(self.path, error) from None


@dataclass(frozen=True, slots=True)
class _OfRow:
    path: Path
    group: int
    row: int

    def triples(self) -> list[Triple]:
        """Return the triples of the row's graph."""
        try:
            with pq.ParquetFile(self.path) as file:
                table = file.read_row_group(self.group, columns=["graph"])
            return _triples(table.slice(self.row, 1).to_pylist()[0])
        except (OSError, ValueError, IndexError, pa.ArrowException) as error:
            raise _changed(self.path, error) from None


def _changed(path: Path, error: Exception) -> DataError:
    return DataError(
        f"A question's graph can no longer be read from {path}: {error}.",
        "Leave the file as it is while its questions are answered.",
    )


def _parquet(path: Path) -> Iterator[Read]:
    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for group in range(file.num_row_groups):
                place = 0
                for batch in file.iter_batches(_ROWS, row_groups=[group]):
                    for row in batch.to_pylist():
                        number += 1
                        try:
                            _triples(row)
                            yield number, _question(row, number, _OfRow(path, group, place))
                        except ValueError as error:
                            yield number, str(error)
                        place += 1
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, str(error).splitlines()[0]) from None


def _triples(row: dict[str, Any]) -> list[Triple]:
    graph = row.get("graph")
    if not isinstance(graph, list):
        raise ValueError('"graph" is no list of triples')
    found: list[Triple] = []
    for one in graph:
        if not (
            isinstance(one, list)
            and len(one) == 3
            and all(isinstance(part, str) and part.strip() for part in one)
        ):
            raise ValueError(f'item {len(found) + 1} of "graph" is no [head, relation, tail]')
        found.append((one[0], one[1], one[2]))
    return found


def _question(row: dict[str, Any], number: int, graph: OwnGraph | None) -> Question:
    names: dict[str, str] = {}
    topics = _entities(row, "q_entity", "q_mid", graph is not None, names) or []
    answers = _entities(row, "a_entity", "a_mid", graph is not None, names)
    if answers is None:
        answers = texts_of(row, "answer")
    if answers is None:
        raise ValueError('"a_entity" is missing')
    kind = row.get("type")
    return Question(
        id=id_of(row, "id", number),
        question=text_of(row, "question"),
        topic_entities=topics,
        answers=answers,
        type=kind if isinstance(kind, str) else "",
        relation_paths=_chains(row),
        names=names,
        graph=graph,
    )


def _entities(
    row: dict[str, Any], name_field: str, id_field: str, by_name: bool, names: dict[str, str]
) -> list[str] | None:
    """Return the entities under two fields: by name, or by id with their names noted.

    Ids count only where each name has one; an entity without a name stands by its id.
    """
    ids = texts_of(row, id_field)
    given = row.get(name_field)
    if ids is None or not isinstance(given, list) or len(row[id_field]) != len(given):
        return texts_of(row, name_field)
    pairs = list(zip(row[id_field], given, strict=True))
    if not all(isinstance(name, str) for _, name in pairs):
        raise ValueError(f'"{name_field}" is no list of texts')
    if by_name:
        return list(dict.fromkeys(name.strip() or one for one, name in pairs))
    names.update((one.strip(), name.strip()) for one, name in pairs if name.strip())
    return ids


def _chains(row: dict[str, Any]) -> list[tuple[str, ...]]:
    chains = row.get("gold_chains") or []
    if not isinstance(chains, list):
        raise ValueError('"gold_chains" is no list of lists')
    chains = [chain for chain in chains if chain]  # null stands for a parse without one
    if not all(isinstance(chain, list) for chain in chains):
        raise ValueError('"gold_chains" is no list of lists')
    if not all(isinstance(step, str) for chain in chains for step in chain):
        raise ValueError('"gold_chains" holds something that is no text')
    return list(dict.fromkeys(tuple(chain) for chain in chains))
