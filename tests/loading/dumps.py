"""Small Freebase dumps, and the law that no line of one is ever lost without a word."""

from __future__ import annotations

import contextlib
import csv
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgqa.errors import KGNotFoundError
from kgqa.graph.model import EdgeBatch, NameBatch, TypeBatch
from kgqa.graph.open import open_store
from kgqa.loaders import make_loader
from kgqa.loaders.base import Rejects, Report
from kgqa.loading.edges import NAMELESS_END, REPEATED, UNKNOWN_END
from kgqa.loading.nodes import NAMELESS, UNKNOWN_NAME
from kgqa.loading.spool import NO_RELATION
from kgqa.loading.summary import UNUSED_RELATION
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Sequence

NS = "http://rdf.freebase.com/ns/"
_SCHEMA = ("freebase.type_hints.mediator>", "type.property.reverse_property>", "owl#inverseOf>")
#: counted after the scan: of edges, of names, and of nodes
_LATER_EDGES = (NAMELESS_END, UNKNOWN_END, REPEATED, NO_RELATION)
_LATER = {*_LATER_EDGES, UNKNOWN_NAME, NAMELESS, UNUSED_RELATION}


def line(subject: str, predicate: str, end: str) -> str:
    """Return a line in the dump's form, without its line feed; ``end`` an id, or as it stands."""
    predicate = predicate if ":" in predicate else NS + predicate
    end = end if end[0] in '"<' else f"<{NS}{end}>"
    return f"<{NS}{subject}>\t<{predicate}>\t{end}\t."


NAME = "type.object.name"
EDGE = "film.film.sequel"
BASE = [line("m.01", NAME, '"One"@en'), line("m.02", NAME, '"Two"@en'), line("m.01", EDGE, "m.02")]


def dump_of(lines: Sequence[str | bytes], end: bytes = b"\n") -> bytes:
    """Return lines as a dump."""
    return b"".join((row.encode() if isinstance(row, str) else row) + end for row in lines)


PLAIN = dump_of(BASE)
MANY = dump_of([*BASE, *(line("m.01", f"film.x{n * n}.y", "m.02") for n in range(3000))])


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def visible(home: Path) -> list[str]:
    """The version of the KG that is served, empty if there is none."""
    with contextlib.suppress(KGNotFoundError), open_store(home) as store:
        return [store.info.version]
    return []


def rejects_of(result: dict[str, Any]) -> list[list[str]]:
    """Return the rows of a load's rejects file: source, line, reason, text."""
    if result["rejects_file"] is None:
        return []
    text = Path(result["rejects_file"]).read_text(encoding="utf-8")
    assert text.endswith("\n")
    header, *rows = csv.reader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    assert header == ["source", "line", "reason", "text"]
    assert all(len(row) == 4 for row in rows)
    return rows


def assert_nothing_lost(sources: Sequence[Path], result: dict[str, Any], **options: Any) -> None:
    """Check the bookkeeping of a Freebase load (its JSON).

    Every line is kept (as a name, a type, an edge, or as something said of the schema), or left out
    or rejected with a reason; every edge that was kept so far is in the KG, or left out with a
    reason; every reject has a line number and a reason in the rejects file.
    """
    loader = make_loader("freebase", **options)
    report, rows = Report(), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        rejects = Rejects(Path(folder) / "rejects.tsv", report)
        for batch in loader.read(list(sources), report, rejects, Silent()):
            for kind in (NameBatch, TypeBatch, EdgeBatch):
                if isinstance(batch, kind):
                    rows[kind.__name__] += len(batch.rows)
        rejects.close()
    dropped = Counter(result["dropped"])
    while_reading = {reason: n for reason, n in dropped.items() if reason not in _LATER}
    assert while_reading == dict(report.dropped)
    assert (result["lines"], result["rejected"]) == (report.lines, report.rejected)
    kept = rows.total()
    left = report.lines - report.rejected - report.dropped.total() - kept
    assert left == schema_lines(sources)
    assert rows["EdgeBatch"] == result["edges"] + sum(dropped[reason] for reason in _LATER_EDGES)
    listed = rejects_of(result)
    assert len(listed) == result["rejected"] == report.reasons.total()
    names = {source.name for source in sources} | {"standard input"}
    for source, number, reason, _ in listed:
        assert source in names
        assert 1 <= int(number) <= report.lines
        assert reason


def schema_lines(sources: Sequence[Path]) -> int:
    """Count the lines that say something of types and relations; they are kept as rules."""
    if any(source.suffix for source in sources if source.suffix not in (".nt", ".txt")):
        return 0  # a compressed one: none of these tests' has such lines
    found = 0
    for source in sources:
        for row in source.read_bytes().split(b"\n"):
            found += any(row.split(b"\t")[1:2] and each.encode() in row for each in _SCHEMA)
    return found
