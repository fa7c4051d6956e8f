"""Every method, store and form of output over hostile graphs, against a reader that shares no code.

A graph is written to a file, and what the file says is read by Python's csv module alone. Whatever
is shown must be there: edges by id, paths as text read back from what a terminal, a chat, an agent
or a notebook gets, and ``check``.
"""

from __future__ import annotations

import html
import io
import itertools
import json
import random
import re
import time
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest

import kgqa
from kgqa.answers.notebook import answer_html
from kgqa.cli.terminal import show_answer, show_details
from kgqa.decoding.engine import DecodingPlan, Engine
from kgqa.display import read_name
from kgqa.errors import EntityNotFoundError, KgqaError
from kgqa.methods.base import LinkedQuestion
from kgqa.paths.walk import WalkRules
from kgqa.server.mcp import capped
from kgqa.server.views import answer_text
from tests.hostile.graphs import HostileGraph, Triple, hostile_graph, lookalikes
from tests.methods.given import gcr, kg_cot, topic
from tests.methods.reasoners import encoder_folder, random_reasoner, tiny_encoder

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.neo4j_store import Neo4jStore  # noqa: F401
    from kgqa.models.kg_llm import KgLLM
    from tests.graph.neo4j_server import Neo4jServer

METHODS = ["rank", "query", "kg-cot"]  # with the models that come with kgqa
_ARROW = " -> "


def assert_path(text: str, graph: HostileGraph) -> None:
    """Every edge of a path as text is in the file, in one direction or the other."""
    for run in text.split(" | "):
        parts = run.split(_ARROW)
        names = [read_name(part) for part in parts[::2]]
        assert len(names) > 1, text
        for (head, tail), shown in zip(itertools.pairwise(names), parts[1::2], strict=True):
            assert shown_edge(head, shown, tail, graph), (text, graph.file)


def shown_edge(head: str, relation: str, tail: str, graph: HostileGraph) -> bool:
    if relation.startswith("^"):
        return is_edge(tail, read_name(relation[1:]), head, graph)
    return is_edge(head, read_name(relation), tail, graph)


def is_edge(head: str, relation: str, tail: str, graph: HostileGraph) -> bool:
    cut = re.compile(r'^(".*")… \([\d,]+ characters\)$', re.DOTALL)
    ends = []
    for name in (head, tail):
        found = cut.match(name)
        ends.append((read_name(found[1]), True) if found else (name, False))
    return any(
        triple[1] == relation
        and all(
            number(name) == number(shown) or (short and name.startswith(shown))
            for name, (shown, short) in zip((triple[0], triple[2]), ends, strict=True)
        )
        for triple in graph.triples
    )


def assert_answer(answer: Any, graph: HostileGraph) -> int:
    """All that an answer shows is in the file, in every form in which it is shown."""
    whole = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    edges = [
        edge for path in whole["paths"] for grounding in path["groundings"] for edge in grounding
    ]
    edges += [edge for path in whole["expanded"] for edge in path["edges"]]
    edges += [
        e for answer in whole["answers"] for met in answer["conditions"] for e in met["edges"]
    ]
    for edge in edges:
        assert edge["facts"]
        for fact in edge["facts"]:
            assert (fact["head"], fact["predicate"], fact["tail"]) in graph.triples
    for one in whole["answers"]:
        if one["id"] is not None:
            assert one["id"] in graph.names
    for found in (whole, capped(whole, 5)):
        text = answer_text(found)
        for span in re.findall(r"^- (?:`[^`]*`: )?`([^`\n]*)`$", text, re.MULTILINE):
            assert_path(span, graph)
        bare = re.sub(r"`[^`\n]*`", "", text)
        assert _ARROW not in bare, bare
    for path in capped(whole, 5)["paths"]:
        assert_path(path["text"], graph)
    out = io.StringIO()
    with redirect_stdout(out):
        show_answer(answer)
        show_details(answer, [])
    printed = out.getvalue() + repr(answer)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\u200b]", printed)
    for line in printed.splitlines():
        if _ARROW in line and line.startswith(("  because ", "     ")):
            assert_path(line.strip().removeprefix("because "), graph)
    drawn = answer_html(whole)
    assert not re.search(
        "<(?!/?(?:div|p|b|ol|ul|li|code|i|svg|g|rect|line|text|title)[ />])", drawn
    )
    assert html.escape("<b>x</b>") in drawn or "<b>x</b>" not in drawn
    assert answer.to_arrow().num_rows == len(answer.answers) or answer.result is not None
    return len(edges)


def assert_checks(kg: kgqa.KG, graph: HostileGraph, draw: random.Random, number: int) -> None:
    """``check`` says what the file says, of its triples and of ones that look like them."""
    for triple in draw.sample(sorted(graph.triples), number):
        found = kg.check([triple])
        assert found, (triple, graph.file)
        assert kg.check(found.statement), "what is printed can be read"
        for place, other in itertools.product((0, 2), lookalikes(triple[0])):
            changed: Any = (*triple[:place], other, *triple[place + 1 :])
            try:
                said = kg.check([changed])
            except EntityNotFoundError:
                assert changed not in graph.triples
                continue
            assert bool(said) == (changed in graph.triples or same_value(changed, graph)), changed


def number(text: str) -> float | str:
    plain = text.strip().replace("\u2212", "-")
    return float(plain) if re.fullmatch(r"[-+]?\d[\d.]*(e[-+]?\d+)?", plain) else text


def same_value(triple: Triple, graph: HostileGraph) -> bool:
    """Whether the end of a triple is a number that is written otherwise in the file."""

    return any(
        (one[0], one[1], number(one[2])) == (triple[0], triple[1], number(triple[2]))
        for one in graph.triples
    )


def assert_graph(
    home: Path, graph: HostileGraph, llm: KgLLM, reasoners: Any, seed: int, most: int, url: str
) -> int:
    """Load a graph, ask ``most`` questions by each method; return the number of edges checked."""
    draw = random.Random(seed)
    kg = kgqa.ingest("triples", graph.file, kg=f"hostile{seed}", home=home, graph=url)
    with kg:
        assert (kg.store.info.edges, kg.store.info.entities) == (
            len(graph.triples),
            len(graph.names),
        )
        assert_checks(kg, graph, draw, 3)
        checked = 0
        names = draw.sample(graph.names, 6)
        for path in kg.paths(names[0], hops=2, limit=20).paths:
            assert_path("".join(map(str, kgqa_text(path))), graph)
        engine = Engine(llm.model, DecodingPlan(budget=64), together=8)
        short = [name for name in names if len(name) < 500]
        walking = kg_cot(reasoners(kg.store), k=4, paths_each=2)
        decoders = [gcr(llm, engine=engine, k=3, search=one) for one in ("beam", "sample")]
        for method in (*decoders, walking):
            topics = [topic(kg.store, name) for name in short[:3]]
            asked = [LinkedQuestion(f"Who is {one.name}?", (one,)) for one in topics]
            for _, answer in method.answers(kg.store, asked):
                if not isinstance(answer, KgqaError):
                    checked += assert_answer(answer, graph)
        for name, one in itertools.product(METHODS, names[:most]):
            question = draw.choice(["Who is the leader of {}?", "Is {} 26?", "{}", "How many {}?"])
            try:
                answer = kg.qa(method=name).ask(question.format(one)[:1_900], entities=[one])
            except KgqaError:  # a name that is a whole document, a question about nothing
                continue
            checked += assert_answer(answer, graph)
    return checked


def kgqa_text(path: Any) -> list[str]:
    from kgqa.display import path_parts

    return path_parts(path.edges)


@pytest.fixture(scope="module")
def reasoners(tmp_path_factory: pytest.TempPathFactory) -> Any:
    encoder = tiny_encoder(encoder_folder(tmp_path_factory.mktemp("encoder") / "tiny"))
    return lambda store: random_reasoner(store, WalkRules(), encoder)


@pytest.mark.model
def test_nothing_false_is_shown_of_a_hostile_graph(
    tmp_path: Path, random_llm: KgLLM, reasoners: Any
) -> None:
    for seed in range(2):
        graph = hostile_graph(tmp_path, seed)
        url = f"sqlite:///{tmp_path}"
        assert assert_graph(tmp_path, graph, random_llm, reasoners, seed, 1, url) > 20


@pytest.mark.model
@pytest.mark.long
def test_nothing_false_is_shown_of_any_hostile_graph(
    tmp_path: Path, random_llm: KgLLM, reasoners: Any
) -> None:
    """For two minutes, at random; a failure names the file, and its seed with it."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        seed = random.SystemRandom().randrange(1 << 30)
        graph = hostile_graph(tmp_path, seed, edges=random.Random(seed).choice([20, 60, 300]))
        assert_graph(tmp_path, graph, random_llm, reasoners, seed, 6, f"sqlite:///{tmp_path}")


@pytest.mark.model
@pytest.mark.neo4j
def test_nothing_false_is_shown_of_a_hostile_graph_in_neo4j(
    tmp_path: Path,
    random_llm: KgLLM,
    reasoners: Any,
    neo4j_server: Neo4jServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEO4J_USERNAME", neo4j_server.username)
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.password)
    graph = hostile_graph(tmp_path, 7, longest=7_000)  # an index of Neo4j holds 8,000 bytes
    url = neo4j_server.uri
    try:
        assert assert_graph(tmp_path, graph, random_llm, reasoners, 7, 1, url) > 20
    finally:
        kgqa.delete("hostile7", home=tmp_path, graph=url)
