"""SPARQL endpoints as they are: Oxigraph's server, and servers that misbehave."""

from __future__ import annotations

import gzip
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import kgqa
from kgqa.errors import GraphError, KgqaError, StoreUnavailableError, UsageError
from kgqa.graph.model import Kind, keys_array
from kgqa.graph.schema import PropertyGraph
from kgqa.graph.sparql_client import SparqlClient, iri, literal, term_of
from kgqa.graph.sparql_keys import KeyFile, key_of
from kgqa.graph.sparql_store import SparqlStore
from kgqa.graph.sparql_survey import SparqlTaken, attach_endpoint
from kgqa.graph.store import GraphStore, LiveStore
from kgqa.progress import Silent
from tests.graph.sparql_server import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

X = "http://x.org/"
FILMS = f"""@prefix : <{X}> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:apollo a :Film ; rdfs:label "Apollo 13"@en, "Apollo dreizehn"@de ; :year 1995 ;
  :director :ron ; :note "x" .
:ron a :Person ; rdfs:label "Ron Howard"@en-GB ; :born "1954-03-01"^^xsd:date ; :knows :tom, :ron .
:tom a :Person ; rdfs:label "Tom Hanks" ; :job [ :at :studio ] ; :played :apollo .
"""
HOSTILE = [
    'a"b', "a\\b", "a\nb", "a'b", "}", "{", ">", "<x>", '"} ; DROP ALL #',
    "SELECT * WHERE {?s ?p ?o}",
    "\\u0022", "\t", '"""', "''' }", "a\\", '\\"', "?x", "$x", "# c", "a;b", "é", "😀", "\r", "%22",
    "&amp;", "BIND(1 AS ?n)", ")", "(", "^^<x>", "@en", "a@en", "[]", "_:b", "<", "{}", "||", "!",
    "`",
    "\x01", "UNION",
]  # fmt: skip


@pytest.fixture
def films(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "films.ttl"
    path.write_text(FILMS)
    with serving(tmp_path, path) as url:
        yield url


@contextmanager
def opened(url: str, home: Path, taken: SparqlTaken | None = None) -> Iterator[SparqlStore]:
    with SparqlClient(url) as client:
        attach_endpoint(client, home, "films", taken or SparqlTaken(), Silent())
    with SparqlStore(SparqlClient(url), home / "films") as store:
        yield store


class TestAsItIs:
    def test_it_is_a_store(self, films: str, tmp_path: Path) -> None:
        with opened(films, tmp_path) as store:
            assert isinstance(store, GraphStore)
            assert isinstance(store, LiveStore)
            assert isinstance(store, PropertyGraph)
            ids = [f"{X}apollo", f"{X}ron", f"{X}tom", f"{X}nothing", "not an iri", '"1995"']
            keys = store.keys_of(ids)
            assert (keys >= 0).tolist() == [True, True, True, False, False, False]
            assert store.entities(keys[:3]).names == ["Apollo 13", "Ron Howard", "Tom Hanks"]
            positions, found = store.find_names(["apollo 13", "tom HANKS", "Apollo dreizehn"])
            assert (positions.tolist(), found.tolist()) == ([0, 1], [keys[0], keys[2]])
            assert store.suggest("hanks").tolist() == [keys[2]]
            assert store.degrees(keys[:1]).tolist() == [5]

    def test_edges_and_the_very_triple(self, films: str, tmp_path: Path) -> None:
        with opened(films, tmp_path) as store:
            keys = store.keys_of([f"{X}apollo", f"{X}ron"])
            near = store.neighbours(keys, "both")
            ends, names = store.entities(near.target), store.relations().names
            edges = {
                (row, "^" * (step % 2) + names[step // 2], name)
                for row, step, name in zip(
                    near.row.tolist(), near.step.tolist(), ends.names, strict=True
                )
            }
            assert edges == {
                (0, "type", f"{X}Film"), (0, "year", "1995"), (0, "note", "x"),
                (0, "director", "Ron Howard"), (0, "^played", "Tom Hanks"),
                (1, "type", f"{X}Person"), (1, "born", "1954-03-01"), (1, "knows", "Tom Hanks"),
                (1, "knows", "Ron Howard"), (1, "^knows", "Ron Howard"),
                (1, "^director", "Apollo 13"),
            }  # fmt: skip
            out = near.step % 2 == 0
            heads = np.where(out, keys[near.row], near.target)
            tails = np.where(out, near.target, keys[near.row])
            assert store.has_edges(heads, near.step // 2, tails).all()
            other = (near.step // 2 + 1) % len(names)
            assert not store.has_edges(heads, other, tails).any()
            values = near.target[near.kind == Kind.VALUE]
            back = store.neighbours(values, "in")
            assert set(store.entities(back.target).names) == {"Apollo 13", "Ron Howard"}

    def test_schema_and_properties(self, films: str, tmp_path: Path) -> None:
        with opened(films, tmp_path) as store:
            schema = store.schema()
            types = {type_.name: type_ for type_ in schema.types}
            assert {name: type_.count for name, type_ in types.items()} == {
                f"{X}Film": 1, f"{X}Person": 2,
            }  # fmt: skip
            [born] = types[f"{X}Person"].properties
            assert (born.name, born.type, born.examples) == (f"{X}born", "date", ("1954-03-01",))
            patterns = {(one.head, one.relation, one.tail) for one in schema.relations}
            assert (f"{X}Film", f"{X}director", f"{X}Person") in patterns
            people = store.instances(f"{X}Person")
            rows, dates = store.property_values(people, f"{X}born")
            assert (len(rows), dates) == (1, ["1954-03-01"])
            knows = store.relations().ids.index(f"{X}knows")
            assert len(store.facts(people, [knows], inverse=True).row) == 2
            details = store.details(int(store.keys_of([f"{X}apollo"])[0]))
            assert (details.types, details.properties[f"{X}year"]) == ([f"{X}Film"], 1995)

    def test_classes_are_those_that_chains_of_subclasses_lead_to(self, tmp_path: Path) -> None:
        path = tmp_path / "chain.ttl"
        path.write_text(
            FILMS + ":Film rdfs:subClassOf :Work . :Work rdfs:subClassOf :Thing . "
            ':apollo :cast 3, 4 ; :length "140" ; :seen "1996"^^xsd:gYear .'
        )
        with serving(tmp_path, path) as url, opened(url, tmp_path) as store:
            types = {type_.name: type_ for type_ in store.schema().types}
            assert {f"{X}Film", f"{X}Work", f"{X}Thing", f"{X}Person"} <= types.keys()
            (apollo,) = store.instances(f"{X}Thing").tolist()
            assert store.details(apollo).types == [f"{X}Film", f"{X}Thing", f"{X}Work"]
            held = {one.name: (one.type, one.many) for one in types[f"{X}Work"].properties}
            assert held == {
                f"{X}cast": ("integer", True), f"{X}length": ("integer", False),
                f"{X}note": ("text", False), f"{X}seen": ("integer", False),
                f"{X}year": ("integer", False),
            }  # fmt: skip
            assert store.property_values(keys_array([apollo]), f"{X}length")[1] == [140]

    def test_language_and_label_property(self, films: str, tmp_path: Path) -> None:
        with opened(films, tmp_path, SparqlTaken(default_language="de")) as store:
            assert store.entities(store.keys_of([f"{X}apollo"])).names == ["Apollo dreizehn"]
        with opened(films, tmp_path, SparqlTaken(label_property=[f"{X}note"])) as store:
            assert store.entities(store.keys_of([f"{X}apollo"])).names == ["x"]

    def test_a_question_by_the_library_counts_its_requests(
        self, films: str, tmp_path: Path
    ) -> None:
        with kgqa.attach(films, kg="films", home=tmp_path) as kg:
            store: Any = kg.store
            for question, hops, most in (
                ("Who is the director of Apollo 13?", 1, 4),
                ("Who does the director of Apollo 13 know?", 2, 10),
            ):
                before = store.client.requests
                answer = kg.ask(question, entities=["Apollo 13"], method="rank", hops=hops)
                assert answer.paths
                assert store.client.requests - before <= most

    def test_no_name_is_a_query(self, tmp_path: Path) -> None:
        path = tmp_path / "hostile.ttl"
        label = "<http://www.w3.org/2000/01/rdf-schema#label>"
        lines = [
            f"<{X}{n}> {label} {literal(text)} ; <{X}p> {literal(text)} ."
            for n, text in enumerate(HOSTILE)
        ]
        path.write_text("\n".join(lines))
        with serving(tmp_path, path) as url, opened(url, tmp_path) as store:
            keys = store.keys_of([f"{X}{n}" for n in range(len(HOSTILE))])
            near = store.neighbours(keys, "out")
            named = store.entities(near.target)
            assert [named.ids[row] for row in range(len(named))] == [f'"{t}"' for t in HOSTILE]
            assert store.has_edges(keys[near.row], near.step // 2, near.target).all()
            assert store.keys_of([*named.ids, *HOSTILE]).tolist() == [
                *near.target.tolist(), *([-1] * len(HOSTILE)),
            ]  # fmt: skip
            store.find_names(HOSTILE)
            for text in HOSTILE:
                store.suggest(text)


def test_terms_hold_nothing_but_data() -> None:
    for text in HOSTILE:
        written = literal(text)
        assert "\n" not in written
        assert written.endswith('"')
        if any(mark in text for mark in '<>"{}|^`\\') or min(text) <= " ":
            with pytest.raises(GraphError, match="not an IRI"):
                iri(X + text)
    assert term_of('"a"b"^^xsd:date') == '"a\\"b"^^<http://www.w3.org/2001/XMLSchema#date>'


def test_two_ids_of_one_key_are_an_error(tmp_path: Path) -> None:
    with KeyFile(tmp_path) as keys:
        keys.keep(["a"])
        keys._db.execute("UPDATE seen SET id = 'b' WHERE key = ?", [key_of("a")])
        with pytest.raises(GraphError, match="same key"):
            keys.keep(["a"])


@contextmanager
def misbehaving(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/sparql"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reply(status: int, content: bytes, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    return answer


ROWS = json.dumps({"results": {"bindings": [{"n": {"type": "literal", "value": "1"}}]}}).encode()


def cut_short(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(ROWS)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply(200, ROWS[:20]), "not SPARQL results"),
        (reply(200, b"<html>hello</html>"), "not SPARQL results"),
        (reply(200, b'{"results": {"bindings": [3]}}'), "malformed rows"),
        (reply(302, b"", Location="http://other.example/sparql"), "redirects to another place"),
        (reply(429, b"", Retry_After="999"), "asks to wait 999 s"),
        (reply(401, b""), "refuses access"),
        (reply(500, b"oh"), "HTTP 500: oh"),
        (reply(200, b" " * 2000), "larger than"),
        (cut_short, "cannot be reached|too early"),
    ],
)
def test_a_fault_of_the_server_is_an_error_with_its_name(answer: Any, said: str) -> None:
    with (
        misbehaving(answer) as url,
        SparqlClient(url, max_bytes=1000) as client,
        pytest.raises(GraphError, match=said),
    ):
        client.select("SELECT * {}")


def test_a_server_that_asks_to_wait_is_asked_again() -> None:
    replies = [reply(429, b"", Retry_After="0"), reply(503, b"", Retry_After="0"), reply(200, ROWS)]
    with misbehaving(lambda request: replies.pop(0)(request)) as url, SparqlClient(url) as client:
        assert client.select("SELECT * {}")[0]["n"]["value"] == "1"
        assert client.requests == 3


def test_a_slow_server_is_left_alone() -> None:
    wait = threading.Event()
    with misbehaving(lambda _: wait.wait(10) and None) as url:
        with SparqlClient(url, timeout=0.2) as client, pytest.raises(GraphError, match="within"):
            client.select("SELECT * {}")
        wait.set()


def test_no_server(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="cannot be reached"):
        kgqa.attach("http://127.0.0.1:9/sparql", kg="none", home=tmp_path)


def test_credentials_come_from_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        seen.append(request.headers["Authorization"])
        reply(500, b"no")(request)

    for given in ("https://me:secret@x.org/sparql", "https://x.org/sparql?api_key=secret"):
        with pytest.raises(UsageError, match="holds no credentials") as failed:
            SparqlClient(given)
        assert "secret" not in str(failed.value)
    with misbehaving(answer) as url:
        for name, value, sent in (
            ("KGQA_SPARQL_USER", "me", "Basic bWU6"),
            ("KGQA_SPARQL_TOKEN", "s3cret", "Bearer s3cret"),
        ):
            monkeypatch.setenv(name, value)
            with SparqlClient(url) as client, pytest.raises(KgqaError) as failed:
                client.select("SELECT * {}")
            assert seen[-1] == sent
            assert "s3cret" not in str(failed.value)


class Cutting(SparqlClient):
    """A client of a server that gives few rows, and no page but the first."""

    def select(self, query: str) -> list[dict[str, Any]]:
        rows = super().select(query)
        if "OFFSET" in query and "OFFSET 0" not in query:
            return []
        return rows[:2] if "VALUES" in query and len(rows) > 2 else rows


def test_rows_that_a_server_cuts_are_an_error(films: str, tmp_path: Path) -> None:
    with SparqlClient(films) as client, Cutting(films) as cutting:
        attach_endpoint(client, tmp_path, "films", SparqlTaken(), Silent())
        with pytest.raises(GraphError, match="cuts its results"):
            attach_endpoint(cutting, tmp_path, "cut", SparqlTaken(), Silent())
    with SparqlStore(Cutting(films), tmp_path / "films") as store:
        key = store.keys_of([f"{X}apollo"])
        with pytest.raises(GraphError, match="cuts its results"):
            store.neighbours(key, "out")


def test_the_bundled_sample_is_the_same_graph_from_an_endpoint(tmp_path: Path) -> None:
    """Paths of the questions' topics; types of mediators are the server's alone."""
    pyoxigraph = pytest.importorskip("pyoxigraph")
    sample = files("kgqa") / "data/freebase/sample.nt.gz"
    sound = tmp_path / "sample.nt"
    with sound.open("wb") as file:
        for line in gzip.decompress(sample.read_bytes()).splitlines(keepends=True):
            try:  # the sample has lines that are no RDF, on purpose
                if list(pyoxigraph.parse(line, pyoxigraph.RdfFormat.N_TRIPLES)):
                    file.write(line)
            except SyntaxError:
                continue
    lines = (files("kgqa") / "data/freebase/questions.jsonl").read_text().splitlines()
    topics = {id_ for line in lines for id_ in json.loads(line)["topic_entities"]}
    with (
        serving(tmp_path, sound) as url,
        kgqa.ingest("freebase", sound, kg="file", home=tmp_path) as file_kg,
        kgqa.attach(url, kg="endpoint", home=tmp_path) as endpoint,
    ):
        for topic in sorted(topics)[:12]:
            given, expected = (
                {path.text for path in kg.paths(topic, hops=2, limit=100_000).paths}
                for kg in (endpoint, file_kg)
            )
            assert given == expected, topic
