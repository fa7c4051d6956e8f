"""A load from a loader's batches to an open store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kgqa.errors import DumpMalformedError, IngestError, KGNotFoundError
from kgqa.graph.model import EDGE_SCHEMA, ENTITY_SCHEMA, Direction, EdgeBatch, EntityBatch
from kgqa.graph.open import open_store, open_writer
from kgqa.loading.pipeline import IngestResult
from kgqa.loading.pipeline import load as load_kg
from kgqa.loading.sources import BUNDLED, Sources
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress


class SpacedTriples:
    """A loader of the smallest kind: ``head relation tail`` on a line; ``stop`` ends a load."""

    name = "spaced"
    direction: Direction = "both"
    licence = "public domain"
    where = "nowhere"

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        for source in sources:
            for number, line in enumerate(source.read_text().splitlines(), 1):
                report.lines += 1
                if line == "stop":
                    raise DumpMalformedError(f"{source.name} stops at line {number}.")
                match line.split():
                    case [head, relation, tail]:
                        edge = {"head": head, "relation": relation, "tail": tail}
                        ids = [{"id": id_, "name": id_.upper(), "kind": 0} for id_ in (head, tail)]
                        yield EntityBatch(pa.RecordBatch.from_pylist(ids, schema=ENTITY_SCHEMA))
                        yield EdgeBatch(pa.RecordBatch.from_pylist([edge], schema=EDGE_SCHEMA))
                    case []:
                        report.dropped["empty line"] += 1
                    case _:
                        rejects.add(source.name, number, "not three words", line)


def load(home: Path, text: str, sources: Sources | None = None) -> IngestResult:
    source = home / "in" / "some.txt"
    source.parent.mkdir(exist_ok=True)
    source.write_text(text)
    with open_writer(home, "spaced") as writer:
        return load_kg(
            SpacedTriples(), sources or [source], "spaced", writer, home / "spaced", Silent()
        )


def test_a_load_ends_in_a_store_and_says_what_it_did(tmp_path: Path) -> None:
    result = load(tmp_path, "a r b\nb r c\n\na r b\nnonsense\n")
    rejects = tmp_path / "spaced" / "rejects.tsv"
    assert (result.kg, result.lines, result.entities, result.edges) == ("spaced", 5, 3, 2)
    assert (result.mediators, result.rejected, result.rejects_file) == (0, 1, str(rejects))
    assert result.dropped == {"empty line": 1, "repeated edge": 1}
    assert result.seconds >= 0
    assert rejects.read_text().splitlines()[1] == "some.txt\t5\tnot three words\tnonsense"
    with open_store(tmp_path) as store:
        info = store.info
        assert (info.name, info.source, info.direction) == ("spaced", "some.txt", "both")
        assert (info.loader, info.licence, info.edges) == ("spaced", "public domain", 2)
        assert store.entities(store.keys_of(["a"])).names == ["A"]


def test_a_load_without_rejects_leaves_no_rejects_file(tmp_path: Path) -> None:
    load(tmp_path, "a r b\nnonsense")
    result = load(tmp_path, "a r b\n")
    assert result.rejects_file is None
    assert not (tmp_path / "spaced" / "rejects.tsv").exists()


def test_the_sample_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "sample.txt").write_text("a r b")
    load(tmp_path, "", Sources((tmp_path / "sample.txt",), bundled=True))
    with open_store(tmp_path) as store:
        assert store.info.source == BUNDLED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("one\ntwo words\n", r"2 lines; rejected: 2 not three words.*rejects\.tsv"),
        ("\n\n", "left out: 2 empty line.*nothing was loaded"),
        ("", "0 lines"),
    ],
)
def test_a_dump_without_an_edge_is_an_error_and_nothing_is_seen(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(IngestError, match=said):
        load(tmp_path, text)
    with pytest.raises(KGNotFoundError):
        open_store(tmp_path)


@pytest.mark.parametrize("text", ["x r y\nstop\n", "nonsense\n"])
def test_a_failed_load_leaves_the_older_kg(tmp_path: Path, text: str) -> None:
    load(tmp_path, "a r b\n")
    with pytest.raises(IngestError):
        load(tmp_path, text)
    with open_store(tmp_path) as store:
        assert store.keys_of(["a", "x"]).tolist() == [0, -1]


def test_a_source_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match=r"gone\.txt cannot be read"):
        load(tmp_path, "", Sources((tmp_path / "gone.txt",)))
