"""Graph files of the field as nodes and edges: GraphML, GEXF, JSON, APOC, Cytoscape, OBO.

Each reader yields :class:`Node` and :class:`Edge` in the order of the file. XML and lines are read
as a stream; a document type, which may define entities, is refused.
"""

from __future__ import annotations

import csv
import json
import os
import re
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias
from xml.etree import ElementTree
from xml.parsers import expat

from kgqa.errors import DumpMalformedError
from kgqa.graph.amounts import number_in
from kgqa.graph.names import is_storable
from kgqa.lexicon.english import says_relation
from kgqa.loaders.base import Rejects, Report, lose
from kgqa.loaders.blocks import read_blocks, read_json, unpacked
from kgqa.loaders.forms import APOC_CSV, APOC_JSON, CYTOSCAPE, GEXF, GRAPHML, NODE_LINK, OBO, SIF
from kgqa.loaders.strings import why_undecodable
from kgqa.loaders.tabular_mapping import words
from kgqa.loaders.triples_rows import HALF
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kgqa.loaders.forms import Form

OBSOLETE = "obsolete term"
_LARGEST = 1 << 30  # bytes of a JSON document that is read as a whole
_NAMES = ("name", "label", "lbl", "title", "displayname", "preflabel", "display_name", "full_name")
_TYPES = ("type", "types", "category", "categories", "kind", "class", "labels", "node_type")
_RELATIONS = (
    "relation",
    "predicate",
    "pred",
    "relationship",
    "rel_type",
    "edge_type",
    "interaction",
)
_KEY = "networkx_key"  # of an edge of a multigraph, as networkx writes GEXF
_LESS_SURE = ("label", "type", "name", "kind", "key", "title", _KEY)  # if none of those is there
_FIRST_EDGES = 1_000  # of GraphML, whose ids show whether ids are relations
_HEADS = ("source", "from", "start", "sub", "subject")
_TAILS = ("target", "to", "end", "obj", "object")
_KINDS_OF_EDGE = {"directed", "undirected", "mutual"}  # which Gephi calls types


@dataclass(slots=True)
class Node:
    """A node of a graph file; ``name`` is None if the file gives none."""

    id: str
    name: str | None = None
    types: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Edge:
    """An edge of a graph file; ``relation`` is "" if the file gives none."""

    head: str
    relation: str
    tail: str
    properties: dict[str, Any] = field(default_factory=dict)


Part: TypeAlias = "Node | Edge"


def read_graph(path: Path, form: Form, report: Report, rejects: Rejects) -> Iterator[Part]:
    """Read the nodes and edges of a graph file in one of the formats ``forms.GRAPHS``.

    Left-out items are counted in ``report``, malformed ones go to ``rejects``. Raises
    DumpMalformedError if the file as a whole cannot be read.
    """
    readers: dict[Form, Callable[[Path, Report, Rejects], Iterator[Part]]] = {
        GRAPHML: _graphml,
        GEXF: _gexf,
        NODE_LINK: _node_link,
        CYTOSCAPE: _node_link,
        SIF: _sif,
        APOC_JSON: _apoc_json,
        APOC_CSV: _apoc_csv,
        OBO: _obo,
    }
    try:
        yield from readers[form](path, report, rejects)
    except ElementTree.ParseError as error:
        raise DumpMalformedError(
            f"{path} is {form.name} with a fault: {error}.", "Write the file again."
        ) from None
    except (UnicodeDecodeError, EOFError) as error:
        raise DumpMalformedError(
            f"{path} is {form.name} that is cut or not UTF-8: {error}."
        ) from None


def _lines(path: Path, rejects: Rejects) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers; lines that are not UTF-8 are rejected."""
    for block in read_blocks([path], Report(), rejects, Silent(), guess=True):
        for number, raw in enumerate(bytes(block.data).split(b"\n")[:-1], block.first):
            if reason := why_undecodable(raw):
                rejects.add(path.name, number, reason, raw.decode(errors="backslashreplace"))
            else:
                yield number, raw.decode()


# ── what the attributes of nodes and edges mean ─────────────────────────────────────────────


def _node(id_: str, given: Mapping[str, Any], types: Iterable[str] = ()) -> Node:
    """Build a node; its name and types are taken from attributes that usually hold them.

    Empty attributes are dropped; ``given``: all attributes by name.
    """
    properties = {key: value for key, value in given.items() if value not in (None, "")}
    plain = {key.casefold(): key for key in properties}
    node = Node(id_, types=list(types))
    called = next((plain[name] for name in _NAMES if name in plain), None)
    if called is not None and isinstance(properties[called], str | int | float):
        node.name = str(properties.pop(called))
    if not node.types and (kind := next((plain[name] for name in _TYPES if name in plain), None)):
        value = properties.pop(kind)
        values = value if isinstance(value, list) else re.split(r"[;|:]", str(value))
        node.types = [_without_prefix(str(each).strip()) for each in values if str(each).strip()]
    node.properties = properties
    return node


def _is_text(record: Any) -> bool:
    """Return whether all texts of a JSON record are encodable: none has a lone surrogate."""
    return is_storable(json.dumps(record, ensure_ascii=False))


def _without_prefix(type_: str) -> str:
    """Remove a vocabulary's prefix from a class: ``biolink:Gene`` becomes ``Gene``."""
    return type_.rsplit(":", 1)[-1] if re.fullmatch(r"[\w.-]+:[\w.-]+", type_) else type_


def _edge(head: str, tail: str, given: Mapping[str, Any], relation: str = "") -> Edge:
    """Build an edge; without ``relation``, or if that is general, an attribute gives it.

    Empty attributes are dropped; the relation stays "" if no attribute gives it.
    """
    properties = {key: value for key, value in given.items() if value not in (None, "")}
    if isinstance(properties.get(_KEY), int):
        del properties[_KEY]  # it only counts the edges between two nodes
    plain = {key.casefold(): key for key in properties}
    for name in (*_RELATIONS, *_LESS_SURE) if not relation else ():
        key = plain.get(name)
        if key is None or not isinstance(properties[key], str):
            continue
        if properties[key].strip().casefold() not in _KINDS_OF_EDGE:
            relation = properties.pop(key).strip()
            break
    for key, value in properties.items() if relation else ():
        if isinstance(value, str) and value.strip() and _names_relation(key, relation):
            rest = {name: each for name, each in properties.items() if name != key}
            return Edge(head, value.strip(), tail, rest)
    return Edge(head, relation, tail, properties)


@cache
def _names_relation(key: str, relation: str) -> bool:
    """Return whether an edge attribute gives the relation, if ``relation`` is a general one."""
    return says_relation(words(key), words(relation))


# ── XML ─────────────────────────────────────────────────────────────────────────────────────


def _xml_events(path: Path) -> Iterator[tuple[str, ElementTree.Element]]:
    """Yield (event, element) of an XML file, with tags without namespaces."""
    try:
        with unpacked(path) as stream:
            _refuse_document_type(path, stream)
        with unpacked(path) as stream:
            for event, element in ElementTree.iterparse(stream, ("start", "end")):
                element.tag = element.tag.rpartition("}")[2]
                yield event, element
    except DumpMalformedError:
        raise
    except (LookupError, ValueError) as error:  # of the encoding that it declares
        raise DumpMalformedError(
            f"{path} cannot be decoded: {error}.", "Save it as UTF-8."
        ) from None


def _refuse_document_type(path: Path, stream: IO[bytes]) -> None:
    """Raise DumpMalformedError if the XML has a document type, which may define entities."""
    begun = False

    def begin(*_: object) -> None:
        """Note that the first element began."""
        nonlocal begun
        begun = True

    def refuse(*_: object) -> None:
        """Raise DumpMalformedError unless the first element began."""
        if not begun:
            raise DumpMalformedError(
                f"{path} has a document type, which may define entities.",
                "Remove the <!DOCTYPE …> and load the file again.",
            )

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    parser.StartDoctypeDeclHandler = refuse
    with suppress(expat.ExpatError):  # which is reported when it is read
        while not begun and (part := stream.read(1 << 16)):
            parser.Parse(part)


_CASTS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": lambda text: text.strip().casefold() in ("true", "1"),
}


def _cast(text: str, kind: str) -> Any:
    """Convert an attribute's text to its declared type ``kind``; it stays text if that fails."""
    try:
        return _CASTS[kind](text) if kind in _CASTS else text
    except ValueError:
        return text


def _graphml(path: Path, report: Report, rejects: Rejects) -> Iterator[Part]:
    """Read GraphML; edge ids that repeat are taken as relations.

    Ids are unique in GraphML, but networkx writes the keys of a multigraph's edges as ids, and a
    graph of relations has its relations as keys.
    """
    held: list[tuple[str, Edge]] = []
    named: bool | None = None
    for id_, part in _graphml_parts(path, report, rejects):
        if isinstance(part, Node):
            yield part
            continue
        held.append((id_, part))
        if named is None and len(held) < _FIRST_EDGES:
            continue
        named = _ids_are_relations(held) if named is None else named
        yield from _named_edges(held, named)
        held.clear()
    yield from _named_edges(held, _ids_are_relations(held) if named is None else named)


def _ids_are_relations(edges: list[tuple[str, Edge]]) -> bool:
    """Return whether edge ids repeat and are not just numbers, so that they are relations."""
    ids = [id_ for id_, _ in edges if id_ and not id_.isdecimal()]
    return len(set(ids)) < len(ids)


def _named_edges(edges: list[tuple[str, Edge]], named: bool) -> Iterator[Edge]:
    """Yield edges; if ``named``, an edge without a relation gets its id as relation."""
    for id_, edge in edges:
        if named and not edge.relation:
            edge.relation = id_
        yield edge


def _graphml_parts(path: Path, report: Report, rejects: Rejects) -> Iterator[tuple[str, Part]]:
    """Yield (id given by the file or "", node or edge) of a GraphML file.

    Hyperedges and ports are counted as dropped.
    """
    keys: dict[str, tuple[str, str]] = {}
    default: dict[tuple[str, str], Any] = {}
    held: dict[str, Any] = {}
    for event, element in _xml_events(path):
        if event == "start":
            if element.tag in ("node", "edge"):
                held = {}
            continue
        if element.tag == "key":
            id_, kind = element.get("id", ""), element.get("attr.type", "string")
            keys[id_] = element.get("attr.name", id_), kind
            if (given := element.find("default")) is not None and given.text:
                default[element.get("for", "all"), keys[id_][0]] = _cast(given.text, kind)
            default_tag = element.find("default")
            if default_tag is not None:
                default_tag.clear()
        elif element.tag == "data":
            name, kind = keys.get(element.get("key", ""), (element.get("key", ""), "string"))
            text = "".join(element.itertext()).strip()
            if len(element):  # a drawing, as yEd writes it
                texts = (each.text or "" for each in element.iter() if each.tag.endswith("Label"))
                name, kind = "label", "string"
                text = next((text.strip() for text in texts if text.strip()), "")
            if text:
                held[name] = _cast(text, kind)
        elif element.tag in ("node", "edge"):
            report.lines += 1
            given_here = {
                name: value for (of, name), value in default.items() if of in (element.tag, "all")
            } | held
            id_ = element.get("id", "")
            yield from (
                (id_, part) for part in _xml_part(path, element, given_here, rejects, report)
            )
            element.clear()
        elif element.tag in ("hyperedge", "port"):
            said = str(element.get("name") or element.get("id") or "")
            lose(report.dropped, f"{element.tag} of GraphML", 1, said)


def _gexf(path: Path, report: Report, rejects: Rejects) -> Iterator[Part]:
    """Read GEXF."""
    keys: dict[tuple[str, str], tuple[str, str]] = {}
    of = "node"
    held: dict[str, Any] = {}
    inside = ""
    for event, element in _xml_events(path):
        if event == "start":
            if element.tag == "attributes":
                of = element.get("class", "node")
            elif element.tag in ("node", "edge"):
                held, inside = {}, element.tag
                for name in ("label", "kind", "weight"):
                    if (text := element.get(name)) is not None:
                        held[name] = _cast(text, "float" if name == "weight" else "string")
            continue
        if element.tag == "attribute":
            id_ = element.get("id", "")
            keys[of, id_] = element.get("title", id_), element.get("type", "string")
        elif element.tag == "attvalue":
            id_ = element.get("for", element.get("id", ""))
            name, kind = keys.get((inside, id_), (id_, "string"))
            if text := element.get("value", ""):
                held[name] = _cast(text, kind)
        elif element.tag in ("node", "edge"):
            report.lines += 1
            yield from _xml_part(path, element, held, rejects, report)
            element.clear()


def _xml_part(
    path: Path,
    element: ElementTree.Element,
    given: Mapping[str, Any],
    rejects: Rejects,
    report: Report,
) -> Iterator[Part]:
    """Build the node or edge of an XML element with its attributes ``given``, in a list of 0 or 1.

    An element without an id, or without both ends, is rejected.
    """
    if element.tag == "node":
        if (id_ := element.get("id")) is None:
            rejects.add(str(path), report.lines, "a node without an id", str(element.attrib))
        else:
            own = {} if "labels" not in element.attrib else {"labels": element.get("labels")}
            yield _node(id_, {**own, **given})  # APOC writes labels and label as attributes
        return
    head, tail = element.get("source"), element.get("target")
    if head is None or tail is None:
        rejects.add(str(path), report.lines, "an edge without both ends", str(element.attrib))
        return
    yield _edge(head, tail, {"label": element.get("label"), **given})


# ── JSON ────────────────────────────────────────────────────────────────────────────────────


def _node_link(path: Path, report: Report, rejects: Rejects) -> Iterator[Part]:
    """Read node-link JSON, OBO Graphs and Cytoscape JSON."""
    hint = "Write it as GraphML, or as a table of nodes and one of edges."
    read = read_json(path, "a graph in JSON", _LARGEST, hint)
    try:
        graphs = read.get("graphs", [_elements_of(read)])  # OBO Graphs have a list of them
        nodes = [node for graph in graphs for node in graph["nodes"]]
        edges = [
            edge
            for graph in graphs
            for edge in next(
                graph[key] for key in ("links", "edges", "relationships") if key in graph
            )
        ]
    except (AttributeError, KeyError, TypeError, StopIteration):
        raise DumpMalformedError(
            f"{path} is not JSON with a list of nodes and one of links.",
            'Its form: {"nodes": [{"id": …}], "links": [{"source": …, "target": …}]}.',
        ) from None
    ids: list[str] = []
    called: dict[str, str] = {}  # relations are nodes, too, in OBO Graphs
    for number, record in enumerate(nodes, 1):
        report.lines += 1
        record = record if isinstance(record, dict) else {"id": record}
        key = next((key for key in ("id", "key", "name") if record.get(key) is not None), None)
        if key is None or not _is_text(record):
            ids.append("")
            reason = "a node without an id" if key is None else HALF
            rejects.add(str(path), number, reason, json.dumps(record))
            continue
        ids.append(str(record[key]))
        data = record.get("attributes") or record.get("data") or record.get("properties")
        rest = {name: value for name, value in record.items() if value is not data}
        given = {**rest, **(data if isinstance(data, dict) else {})}
        node = _node(
            ids[-1], {name: v for name, v in given.items() if name != key or key == "name"}
        )
        if "graphs" in read and node.name:
            called[node.id] = node.name
        yield node
    known = set(ids)
    for number, record in enumerate(edges, 1):
        report.lines += 1
        ends = [
            next((record.get(key) for key in keys if record.get(key) is not None), None)
            if isinstance(record, dict)
            else None
            for keys in (_HEADS, _TAILS)
        ]
        ends = [_node_id_of(end, ids, known) for end in ends]
        if not all(isinstance(end, str) and end for end in ends):
            rejects.add(str(path), number, "a link without both ends", json.dumps(record))
            continue
        if not _is_text(record):
            rejects.add(str(path), number, HALF, json.dumps(record))
            continue
        data = record.get("attributes") or record.get("properties")
        skipped = (*_HEADS, *_TAILS, "attributes", "properties")
        given = {name: value for name, value in record.items() if name not in skipped}
        if isinstance(given.get("key"), int) and read.get("multigraph"):
            del given["key"]
        given |= data if isinstance(data, dict) else {}
        edge = _edge(str(ends[0]), str(ends[1]), given)
        edge.relation = called.get(edge.relation, edge.relation)
        if "graphs" in read:
            edge.relation = edge.relation.replace("_", " ")  # as in OBO
        yield edge


def _elements_of(read: dict[str, Any]) -> dict[str, Any]:
    """Convert Cytoscape JSON to the form of node-link JSON; return other JSON unchanged."""
    if not (elements := read.get("elements")):
        return read
    if isinstance(elements, list):
        edges = [each for each in elements if "source" in each["data"]]
        elements = {"nodes": [each for each in elements if each not in edges], "edges": edges}
    return {
        kind: [
            {
                name: value
                for name, value in each["data"].items()
                if name not in ("SUID", "selected") and not name.startswith("shared")
            }
            for each in elements.get(kind, ())
        ]
        for kind in ("nodes", "edges")
    }


def _node_id_of(end: Any, ids: list[str], known: set[str]) -> str | None:
    """Return the node id that an edge's end means: an id, an object with one, or an index.

    ``ids``: the nodes' ids in order. None if the end is missing.
    """
    if isinstance(end, dict):
        end = end.get("id")
    if isinstance(end, int) and str(end) not in known and 0 <= end < len(ids):
        return ids[end]  # older files of networkx and d3 name nodes by their places
    return None if end is None else str(end)


def _sif(path: Path, report: Report, rejects: Rejects) -> Iterator[Part]:
    """Read Cytoscape's simple interaction format: a node, a relation, and one or more nodes.

    A line of one node is a node without edges.
    """
    for number, line in _lines(path, rejects):
        head, *rest = [
            each for each in re.split(r"\t" if "\t" in line else r"\s", line) if each
        ] or [""]
        if not head:
            continue
        report.lines += 1
        yield Node(head)
        if len(rest) == 1:
            rejects.add(str(path), number, "a relation that leads to no node", line)
        for tail in rest[1:]:
            yield Node(tail)
            yield Edge(head, rest[0], tail)


def _apoc_json(path: Path, report: Report, rejects: Rejects) -> Iterator[Part]:
    """Read APOC's JSON export, one node or relationship a line."""
    for number, line in _lines(path, rejects):
        if not line.strip():
            continue
        report.lines += 1
        try:
            record = json.loads(line)
            if not _is_text(record):
                rejects.add(str(path), number, HALF, line)
                continue
            if record["type"] == "node":
                yield _apoc_node(str(record["id"]), record.get("properties"), record.get("labels"))
                continue
            head, tail = str(record["start"]["id"]), str(record["end"]["id"])
            held = record.get("properties") or {}
            edge = _edge(head, tail, held if isinstance(held, dict) else {}, str(record["label"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            rejects.add(str(path), number, "neither a node nor a relationship", line)
            continue
        yield edge


def _apoc_node(id_: str, properties: Any, labels: Any) -> Node:
    """Build a node from properties and labels."""
    given = properties if isinstance(properties, dict) else {}
    return _node(id_, given, [str(label) for label in labels or ()])


def _apoc_csv(path: Path, report: Report, rejects: Rejects) -> Iterator[Part]:
    """Read APOC's CSV export."""

    def texts() -> Iterator[str]:
        """Yield the lines with line ends, for the CSV parser."""
        for _, line in _lines(path, rejects):
            yield line + "\n"

    rows = csv.DictReader(texts())
    try:
        for number, row in enumerate(rows, 2):
            report.lines += 1
            given = {
                name: _number(text)
                for name, text in row.items()
                if name and name[:1] != "_" and isinstance(text, str) and text
            }
            if row.get("_id"):
                labels = [label for label in (row.get("_labels") or "").split(":") if label]
                yield _apoc_node(row["_id"], given, labels)
            elif row.get("_start") and row.get("_end") and row.get("_type"):
                yield _edge(row["_start"], row["_end"], given, row["_type"])
            else:
                text = ",".join(str(value) for value in row.values())
                rejects.add(str(path), number, "neither a node nor a relationship", text)
    except csv.Error as error:
        raise DumpMalformedError(f"{path} cannot be read: {error}.") from None


def _number(text: str) -> Any:
    """Parse a text as a number if written as one: not ``007`` and not ``1E5``; else return it."""
    number = number_in(text)
    return number if str(number) == text else text


# ── OBO ─────────────────────────────────────────────────────────────────────────────────────

_TAG = re.compile(r"(?P<tag>[\w-]+):\s*(?P<value>.*)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_REST = re.compile(r"\s+(?:\{[^}]*\}\s*)?(?:!.*)?$|\s*\{[^}]*\}\s*(?:!.*)?$")


def _obo(path: Path, report: Report, rejects: Rejects) -> Iterator[Part]:
    """Read the terms of an OBO file; relations get the names of their ``[Typedef]`` stanzas.

    The first pass reads the names of relations, which are at the end of a file. Obsolete terms, and
    tags that are not read, are counted as dropped.
    """
    with closing(Rejects(Path(os.devnull), Report())) as unused:
        names = {
            values["id"][0]: values["name"][0]
            for kind, values in _stanzas(path, unused)
            if kind == "Typedef" and values.get("id") and values.get("name")
        }
    for kind, values in _stanzas(path, rejects):
        if kind not in ("Term", "Instance"):
            continue
        report.lines += 1
        if not values.get("id"):
            rejects.add(str(path), report.lines, "a term without an id", str(values)[:200])
            continue
        if values.get("is_obsolete", [""])[0] == "true":
            lose(report.dropped, OBSOLETE, 1, values["id"][0])
            continue
        id_ = values["id"][0]
        node = Node(id_, next(iter(values.get("name", ())), None))
        node.types = values.get("namespace", [])[:1]
        node.aliases = [text for value in values.get("synonym", ()) if (text := _quoted(value))]
        if text := _quoted(next(iter(values.get("def", ())), "")):
            node.properties["definition"] = text
        node.aliases += [_REST.sub("", value).strip() for value in values.get("alt_id", ())]
        for tag in _PROPERTIES:
            given = [_REST.sub("", value).strip() for value in values.get(tag, ())]
            if given:
                node.properties[tag] = given[0] if len(given) == 1 else given
        stated = [_property_value(value, names) for value in values.get("property_value", ())]
        for called, said, _ in stated:
            if said is not None:
                held = node.properties.setdefault(called, said)
                if held != said:
                    node.properties[called] = [*(held if isinstance(held, list) else [held]), said]
        yield node
        for called, _, end in stated:
            if end:
                yield Edge(id_, called, end)
            elif end is not None:
                rejects.add(str(path), report.lines, "a property_value without a value", called)
        edges = [
            (tag.replace("_", " "), _REST.sub("", value).strip())
            for tag in _EDGES
            for value in values.get(tag, ())
        ]
        for value in values.get("relationship", ()):
            called, end = _relation_and_target(value, names)
            if end:
                edges.append((called, end))
            else:
                rejects.add(str(path), report.lines, "a relationship without an end", value)
        for value in values.get("intersection_of", ()):  # each part of a definition is true
            called, end = _relation_and_target(value, names)
            part = (called, end) if end else ("is a", _REST.sub("", value).strip())
            edges += [part] if part not in edges else []
        for called, end in edges:
            yield Edge(id_, called, end)
        for tag in values.keys() - _READ:
            lose(report.dropped, f"{tag} of OBO", len(values[tag]), f"{id_}: {values[tag][0]}")


_PROPERTIES = ("comment", "subset", "xref", "created_by", "creation_date")
_EDGES = ("is_a", "instance_of", "disjoint_from", "equivalent_to")
_READ = {
    *("id", "alt_id", "name", "namespace", "synonym", "def", "property_value", *_PROPERTIES),
    *(*_EDGES, "relationship", "intersection_of", "is_obsolete"),
}


def _stanzas(path: Path, rejects: Rejects) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield (stanza type, values by tag) of an OBO file; lines without a tag are rejected."""
    kind, values = "", dict[str, list[str]]()
    for number, line in _lines(path, rejects):
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            if kind:
                yield kind, values
            kind, values = line[1:-1], {}
        elif match := _TAG.match(line):
            value = match["value"]
            if match["tag"] in ("id", "name", "namespace", "is_obsolete"):
                value = _REST.sub("", value).strip()
            values.setdefault(match["tag"], []).append(value)
        elif line and not line.startswith("!"):
            rejects.add(str(path), number, "a line without a tag", line)
    if kind:
        yield kind, values


def _property_value(value: str, names: dict[str, str]) -> tuple[str, str | None, str | None]:
    """Parse a ``property_value`` into its relation, a text and a term id; one of these is None.

    ``names``: the name of each relation.
    """
    called, end = _relation_and_target(value, names)
    if end.startswith('"'):  # a text may hold what begins a comment
        return called, _quoted(value), None
    return called, None, end


def _relation_and_target(value: str, names: dict[str, str]) -> tuple[str, str]:
    """Parse a relation tag's value; return the relation's name, and the term id ("" if none)."""
    relation, *others = _REST.sub("", value).split() or [""]
    return names.get(relation, relation).replace("_", " "), others[0] if others else ""


def _quoted(value: str) -> str:
    """Return the first quoted text of a tag's value, unescaped; "" if there is none."""
    found = _QUOTED.search(value)
    return re.sub(r"\\(.)", r"\1", found[1]) if found else ""
