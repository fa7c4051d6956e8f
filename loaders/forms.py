"""What a file is, by its content and its ending, so that nothing is taken for what it is not.

Only the first 64 KB are looked at. A form is a name that people know ("a Turtle file") and the
command that reads it, if one does.
"""

from __future__ import annotations

import bz2
import json
import re
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.loaders.blocks import STDIN, check_file, ending_of
from kgqa.loaders.encodings import lines_of, wide_encoding
from kgqa.loaders.ntriples import TRIPLE
from kgqa.loaders.triples_rows import is_header

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_SAMPLE = 1 << 16  # bytes of a file that are looked at
_LINES = 200
_NOT_YET = (
    "This form is not read yet: save it as a table, as triples, or as one of the graph files that "
    "`kgqa ingest graph` reads."
)


@dataclass(frozen=True, slots=True)
class Form:
    """A file format by its common name; ``loader``: the loader that reads it, "" if none does."""

    name: str
    loader: str = ""

    def hint(self, path: Path) -> str:
        """Return a hint on how to load a file of this format, or what to convert it to."""
        if self.loader == "text":
            return f"Prose is read by: kgqa ingest text {path}"
        return f"Load it by: kgqa ingest {self.loader} {path}" if self.loader else _NOT_YET


TURTLE, TRIG = Form("a Turtle file", "rdf"), Form("a TriG file", "rdf")
QUADS, RDF_XML = Form("an N-Quads file", "rdf"), Form("an RDF/XML file", "rdf")
JSON_LD, N3 = Form("a JSON-LD file", "rdf"), Form("an N3 file", "rdf")
N_TRIPLES = Form("an N-Triples file", "triples")
GRAPHML, GEXF = Form("a GraphML file", "graph"), Form("a GEXF file", "graph")
NODE_LINK = Form("a node-link graph in JSON", "graph")
APOC_JSON, APOC_CSV = Form("an APOC JSON export", "graph"), Form("an APOC CSV export", "graph")
OBO = Form("an OBO file", "graph")
CYTOSCAPE, SIF = Form("a Cytoscape file in JSON", "graph"), Form("a SIF file", "graph")
GRAPHS = (GRAPHML, GEXF, NODE_LINK, APOC_JSON, APOC_CSV, OBO, CYTOSCAPE, SIF)
"""The forms that :mod:`kgqa.loaders.graphs` reads."""
PROSE = Form("prose", "text")
EDGE_LIST = Form("an edge list without a relation; give it a column that names the relation", "")
WORKBOOK, PARQUET = Form("an Excel workbook", "tables"), Form("a Parquet file", "tables")
SQLITE, ARROW = Form("a SQLite database", "tables"), Form("an Arrow file", "tables")
TABLES = (WORKBOOK, PARQUET, SQLITE, ARROW)

_MAGIC: tuple[tuple[bytes, Form], ...] = (
    (b"SQLite format 3\0", SQLITE),
    (b"PAR1", PARQUET),
    (b"ARROW1", ARROW),
    (b"%PDF", Form("a PDF document")),
    (b"PK\x03\x04", Form("a zip archive; unpack it first")),
    (b"7z\xbc\xaf\x27\x1c", Form("a 7z archive; unpack it first")),
    (b"\xfd7zXZ\0", Form("an xz archive; unpack it first")),
    (b"\xd0\xcf\x11\xe0", Form("an old Office document; save it as .xlsx")),
    (b"\x89PNG", Form("a picture")),
    (b"\xff\xd8\xff", Form("a picture")),
    (b"GIF8", Form("a picture")),
    (b"\x7fELF", Form("a program")),
    (b"\x93NUMPY", Form("a NumPy array")),
    (b"\x89HDF", Form("an HDF5 file")),
    (b"\x80\x04", Form("a pickle, which is never opened")),
    (b"\x80\x05", Form("a pickle, which is never opened")),
    (b"%%MatrixMarket", Form("a Matrix Market file")),
)
_OPENINGS: tuple[tuple[str, Form], ...] = (
    (r"\*vertices\b", Form("a Pajek file")),
    (r"graph\s*\[|Creator\s+\"[^\"]*\"\s+(?:Version \d+\s+)?graph\s*\[", Form("a GML file")),
    (r"(?:strict\s+)?(?:di)?graph\b[^\[\n]{0,80}\{", Form("a DOT file of Graphviz")),
    (r"(?:format-version|data-version|ontology):\s|\[Term\]", OBO),
    (r"@\w+\s*\{[^,{}]*,\s*\n", Form("a BibTeX file")),
    (r"#NEXUS\b", Form("a NEXUS file")),
    (r"TY  - \w+\s*\n", Form("a RIS file")),
    (r"0 HEAD\s*\n1 ", Form("a GEDCOM file")),
    (r"(?:graph|flowchart) (?:TB|TD|BT|LR|RL)\b", Form("a Mermaid diagram")),
    (r"@startuml\b", Form("a PlantUML diagram")),
    (r"\\(?:documentclass|begin)\b", Form("a LaTeX document")),
    (r"(?i:@relation\s[^\n]*\n\s*@attribute\b)", Form("an ARFF file")),
    (r"#!", Form("a script")),
    (r"(?:From|Received|Return-Path): ", Form("an e-mail")),
    (r"BEGIN:V(?:CARD|CALENDAR)", Form("a vCard or calendar file")),
    (r"ID +\S+ +(?:Reviewed|Unreviewed)", Form("a UniProt flat file")),
    (r"LOCUS +\S+", Form("a GenBank file")),
    (r">[^\n]+\n[A-Za-z*\-]+\n", Form("a FASTA file")),
    (r"##fileformat=VCF", Form("a VCF file")),
    (r"##gff-version", Form("a GFF file")),
    (r"Prefix\(|Ontology\(", Form("an OWL file in functional syntax")),
    (r"Prefix: |Ontology: <", Form("an OWL file in Manchester syntax")),
)
_XML: tuple[tuple[str, Form], ...] = (
    (r"<graphml\b", GRAPHML),
    (r"<gexf\b", GEXF),
    (r"<(?:\w+:)?RDF\b", RDF_XML),
    (r"<Ontology\b", Form("an OWL/XML file")),
    (r"<TriX\b", Form("a TriX file")),
    (r"<(?:!DOCTYPE )?html\b", Form("a web page")),
    (r"<svg\b", Form("a picture in SVG")),
    (r"<mediawiki\b", Form("a MediaWiki dump")),
)
_TURTLE = re.compile(r"@(?:prefix|base)\b|(?:PREFIX|BASE)\s+\S*\s*<", re.IGNORECASE)
_GRAPH_BLOCK = re.compile(r"^\s*(?:GRAPH\s+)?(?:<[^>\s]*>|[\w.-]*:[\w.-]*)\s*\{", re.MULTILINE)
_QUAD = re.compile(r"(?:<[^>\s]*>|_:\S+)\s+<[^>\s]*>\s+.+\s(?:<[^>\s]*>|_:\S+)\s*\.")
_KEYED = re.compile(r"\s*(?:- )?[\w .-]{1,40}:(?: .*|)$|\s*- \S.*$")
_SETTING = re.compile(r"\[[\w.\" -]+\]$|[\w.\"-]+\s*=\s*\S.*$")
_SQL = re.compile(r"(?:CREATE TABLE|INSERT INTO|DROP TABLE|PRAGMA|BEGIN TRANSACTION)\b", re.I)
_CYPHER = re.compile(r"(?:CREATE|MERGE|MATCH)\s*\(|UNWIND\b|:begin\b", re.I)
_CLAUSE = re.compile(r"[a-z]\w*\(.*\)\s*(?::-.*)?\.\s*$")
_RULE = re.compile(r"\s*\|(?:\s*:?-+:?\s*\|)+\s*$")  # below the header of a table in Markdown
_STATEMENT = re.compile(r"(?:;|\{|(?<!\{)\})\s*$")  # how its lines end
_DELIMITERS = "\t,;|"
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
_FUNCTION_WORDS = {
    *("is", "are", "was", "were", "am", "be", "been", "has", "have", "had", "do", "does", "did"),
    *("of", "in", "on", "at", "to", "for", "by", "with", "from", "and", "or", "but", "not"),
    *("the", "a", "an", "my", "your", "his", "her", "its", "our", "their", "will", "can", "may"),
}
_CONTROLS = [bytes([code]) for code in range(32) if code not in b"\t\n\r\f"]
_EDGE_LISTS = (".edgelist", ".edges", ".el")
_BINARY = 0.08  # share of control characters that no text has
_MANY = 0.8  # share of the lines that makes a form


def form_of(path: Path) -> Form | None:
    """Detect a file's format; None for delimited text, JSON lines and unknown content.

    A folder and standard input are not examined: what is read of the latter is lost. Raises
    DumpNotFoundError for an unreadable file, DumpMalformedError for an empty file, a pipe and a
    device.
    """
    if path == STDIN or path.is_dir():
        return None
    check_file(path)
    raw, whole = _sample(path)
    if not raw.strip():
        raise _empty_file(path)
    ending = ending_of(path)
    for magic, form in _MAGIC:
        if raw.startswith(magic):
            is_workbook = magic.startswith(b"PK") and ending in (".xlsx", ".xlsm")
            return WORKBOOK if is_workbook else form
    text = _text_of(raw)
    if text is None:
        return Form("a binary file")
    if not text.strip():  # a byte order mark
        raise _empty_file(path)
    return _form_of_text(text, ending, whole=whole)


def _empty_file(path: Path) -> DumpMalformedError:
    """Return the error of an empty file."""
    return DumpMalformedError(f"{path} is empty.", "Give a file that has lines.")


def check_form(path: Path, wanted: str, takes: Sequence[Form] = ()) -> Form | None:
    """Return a file's format if it is unknown (None) or one that a loader ``takes``.

    ``wanted``: what the loader reads, as a noun for the error. Raises DumpMalformedError for
    another format, with its name and the command that reads it.
    """
    form = form_of(path)
    if form is None or form in takes:
        return form
    what = f"{path} is {form.name}, and {wanted} is wanted here."
    raise DumpMalformedError(what, form.hint(path))


def is_list_of_words(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether rows of three words are prose, and not space-separated triples.

    Triples repeat their relations, and name an entity more than once or by something other than a
    word of prose: an id, camelCase, a number, a symbol. Rows of other lengths are ignored.
    """
    rows = [row for row in rows if len(row) == 3]
    if not rows or is_header(rows[0]) or all(cell.isdecimal() for row in rows for cell in row):
        return False  # numbers alone are OpenKE's ids
    if sum(row[2][-1:] in ".,;!?" for row in rows) > len(rows) // 4:
        return True
    if any(re.search(r"[\d_/:#<>{}[\]]|[a-z][A-Z]", cell) for row in rows for cell in row):
        return False
    relations = {row[1].casefold() for row in rows}
    if len(rows) > 1 and len(relations) == len(rows):
        return True
    things = Counter(thing for row in rows for thing in {row[0], row[2]})
    linked = max(things.values()) > 1
    return len(rows) > 1 and not linked and relations <= _FUNCTION_WORDS


def _sample(path: Path) -> tuple[bytes, bool]:
    """Return the first bytes of a file, decompressed, and whether they are the whole file."""
    try:
        with path.open("rb") as file:
            raw = file.read(_SAMPLE)
    except OSError as error:
        raise DumpNotFoundError(f"{path} cannot be read: {error.strerror or error}.") from None
    unpack: Callable[[bytes], bytes] | None = None
    if raw.startswith(b"\x1f\x8b"):
        unpack = _gunzipped
    elif raw.startswith(b"BZh"):
        unpack = _bunzipped
    elif raw.startswith(b"\x28\xb5\x2f\xfd"):
        unpack = _unzstd
    if unpack is None:
        return raw, len(raw) < _SAMPLE
    try:
        return unpack(raw)[:_SAMPLE], False
    except (OSError, EOFError, zlib.error, pa.ArrowInvalid):
        return raw, False  # its reader says what is wrong with it


def _gunzipped(raw: bytes) -> bytes:
    """Decompress the beginning of gzip data."""
    return zlib.decompressobj(31).decompress(raw, _SAMPLE)


def _bunzipped(raw: bytes) -> bytes:
    """Decompress the beginning of bzip2 data."""
    return bz2.BZ2Decompressor().decompress(raw, _SAMPLE)


def _unzstd(raw: bytes) -> bytes:
    """Decompress the beginning of zstd data; return it unchanged if it is not zstd."""
    with pa.input_stream(pa.py_buffer(raw), compression="zstd") as stream:
        try:
            return bytes(stream.read(_SAMPLE // 4))
        except OSError:
            return raw


def _text_of(raw: bytes) -> str | None:
    """Decode bytes as UTF-16, UTF-32 or UTF-8, replacing what is invalid; None if binary."""
    if encoding := wide_encoding(raw):
        return raw.decode(encoding, "replace").removeprefix("\ufeff")
    if b"\0" in raw and sum(map(raw.count, _CONTROLS)) > _BINARY * len(raw):
        return None  # fewer are damage of a text, which its reader names by line
    return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def _form_of_text(text: str, ending: str, *, whole: bool) -> Form | None:
    """Detect the format of a text by its first lines and the file's ending; None if unknown.

    ``whole``: whether ``text`` is the whole file.
    """
    start = text.lstrip()
    lines = [line for line in lines_of(text) if line.strip()][:_LINES]
    said = [line for line in lines if not line.lstrip().startswith(("#", "//", "%"))]
    first = said[0].strip() if said else ""
    if TRIPLE.fullmatch(first):
        return N_TRIPLES
    if _QUAD.fullmatch(first):
        return QUADS
    if any(_TURTLE.match(line.lstrip()) for line in lines[:50]) or ending in (".ttl", ".turtle"):
        return TRIG if ending == ".trig" or _GRAPH_BLOCK.search(text) else TURTLE
    if ending == ".trig":
        return TRIG
    if ending == ".n3":
        return N3
    if start.startswith("<") and re.match(r"<(?:\?xml|!|[A-Za-z][\w.-]*(?::\w+)?[\s/>])", start):
        head = text[:4_000]
        form = next((form for pattern, form in _XML if re.search(pattern, head, re.I)), None)
        return form or Form("an XML file")
    for pattern, form in _OPENINGS:
        if re.match(pattern, start, re.IGNORECASE if pattern.startswith(r"\*") else 0):
            return form
    if start[:1] in "{[":
        if form := _form_of_json(start, lines, ending):
            return form
        if _is_json(lines[0]):
            return None  # a record a line
    if lines and (form := _form_of_header(lines[0])):
        return form
    if ending == ".sif" and not is_header(lines[0].split("\t")):
        return SIF
    return _form_of_lines(said, ending)


def _form_of_json(start: str, lines: Sequence[str], ending: str) -> Form | None:
    """Detect which JSON format a text is, None for plain JSON lines or arrays of records."""
    try:
        first = json.loads(lines[0])
    except (ValueError, RecursionError):
        first = None
    head = start[:8_000]
    if isinstance(first, dict) and len(lines) > 1 and first.get("type") in ("node", "relationship"):
        return APOC_JSON
    if re.search(r'"@(?:context|graph|id)"\s*:', head):
        return JSON_LD
    if re.search(r'"nodes"\s*:\s*\[', start) and (
        re.search(r'"(?:links|edges|relationships)"\s*:\s*\[', start) or len(start) > _SAMPLE // 2
    ):
        return NODE_LINK
    if re.search(r'"type"\s*:\s*"(?:Feature|FeatureCollection)"', head):
        return Form("a GeoJSON file")
    if re.search(r'"elements"\s*:\s*[\[{]', head) and '"source"' in start:
        return CYTOSCAPE
    if re.search(r'"(?:nbformat|cells)"\s*:', head):
        return Form("a notebook")
    is_document = len(lines) == 1 and ending not in (".jsonl", ".ndjson")
    if isinstance(first, dict) and is_document and not _is_flat(first):
        return Form("a JSON document, not a table")
    if first is None and start[0] == "{" and lines[0].strip() in ("{", "[{"):
        return Form("a JSON document, not a table")
    return None


def _is_json(line: str) -> bool:
    """Return whether a line is a JSON document."""
    try:
        json.loads(line)
    except RecursionError:
        return True  # its reader says what is wrong with it
    except ValueError:
        return False
    return True


def _is_flat(record: dict[str, object]) -> bool:
    """Return whether no value of a JSON object is a list or an object."""
    return not any(isinstance(value, list | dict) for value in record.values())


def _form_of_header(line: str) -> Form | None:
    """Return APOC's CSV format if a line is its header, else None."""
    names = {name.strip().strip('"') for name in re.split(r"[,\t;]", line)}
    return APOC_CSV if {"_id", "_labels", "_start", "_end", "_type"} <= names else None


def _form_of_lines(lines: Sequence[str], ending: str) -> Form | None:
    """Detect formats without a signature (settings, YAML, statements, prose); None for a table."""
    if not lines:
        return None
    if _SQL.match(lines[0]):
        return Form("a script of SQL")
    if _CYPHER.match(lines[0]):
        return Form("a script of Cypher; run it in Neo4j, and use `kgqa attach`")
    if any(map(_RULE.match, lines)):
        return Form("a table in Markdown; save it as CSV")
    if sum(bool(_CLAUSE.match(line)) for line in lines) >= _MANY * len(lines) > 1:
        return Form("a file of Prolog clauses")
    keyed = sum(bool(_KEYED.match(line)) for line in lines)
    is_yaml = ending in (".yaml", ".yml") or lines[0].strip() == "---"
    if is_yaml or (keyed >= _MANY * len(lines) > 1 and not _is_delimited(lines)):
        return Form("a YAML file, not a table")
    if len(lines) > 1 and lines[0].startswith("[") and _setting_share(lines) >= _MANY:
        return Form("a file of settings, not a table")
    ends = sum(bool(_STATEMENT.search(line)) for line in lines)
    bare = [line.rstrip().rstrip(";") for line in lines]
    inner = any(";" in line for line in bare) or _is_delimited(bare)
    if ends >= _MANY * len(lines) > 2 and not inner and ending != ".csv":
        return Form("a file of statements, not a table")
    is_table = ending in (".csv", ".tsv", ".tab", ".psv")  # of one column
    if not is_table and _is_punctuated(lines):
        return PROSE
    if _is_delimited(lines):
        return None
    words = [line.split() for line in lines]
    threes = [row for row in words if len(row) == 3]
    if 2 * len(threes) >= len(words) > 1:
        last = {row[2] for row in threes}
        if last == {"{}"} or _is_weighted(threes, ending):
            return EDGE_LIST
        return PROSE if is_list_of_words(threes) else None
    if {len(row) for row in words} <= {1, 2}:
        return None
    count, often = Counter(map(len, words)).most_common(1)[0]
    if count > 2 and often >= _MANY * len(lines):
        return None  # columns that blanks part
    return PROSE if sum(map(len, words)) >= 3 * len(words) and not is_table else None


def _is_punctuated(lines: Sequence[str]) -> bool:
    """Return whether lines are prose by punctuation: each comma is followed by a space."""
    text = "\n".join(line.strip() for line in lines)
    if len(lines) < 2 or re.search(r"[,;]\S|[\t|]", text):
        return False
    pieces = [piece.split() for piece in re.split(r"[,;]\s|\n", text) if piece.strip()]
    ends = sum(line.strip()[-1] in ",.;:!?" for line in lines)
    return 2 * ends >= len(lines) and sum(map(len, pieces)) >= 3 * len(pieces)


def _is_weighted(rows: Sequence[Sequence[str]], ending: str) -> bool:
    """Return whether the third cells are weights; rows of integers alone are ids, as in OpenKE."""
    if not all(_NUMBER.fullmatch(row[2]) for row in rows):
        return False
    return ending in _EDGE_LISTS or any("." in row[2] or not row[1].isdecimal() for row in rows)


def _setting_share(lines: Sequence[str]) -> float:
    """Return the fraction of lines of the form ``name = value`` or ``name: value``."""
    return sum(bool(_SETTING.match(line.strip())) for line in lines) / len(lines)


def _is_delimited(lines: Sequence[str]) -> bool:
    """Return whether some delimiter occurs equally often in most lines."""
    for delimiter in _DELIMITERS:
        counts = Counter(line.rstrip(" .,;!?").count(delimiter) for line in lines)
        number, often = counts.most_common(1)[0]
        quoted = any('"' in line for line in lines)
        if number and often >= (0.5 if quoted else 0.6) * len(lines):
            return True
        if delimiter == "\t" and sum(delimiter in line for line in lines) >= _MANY * len(lines):
            return True
    return False
