"""Stores that several rooms use, real data, and a model with random weights."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from tests.tiny import tiny

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kgqa import KG
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.graph.store import GraphStore
    from kgqa.models.kg_llm import KgLLM
    from kgqa.trie.index import TrieIndex

TOLKIEN, LINCOLN = "m.041h0", "m.0gzh"
SAMPLE = Path(__file__).parents[1] / "kgqa" / "data" / "freebase"


def ingested(folder: Path, name: str, tables: Mapping[str, str]) -> KG:
    """Return a KG of tables, each given as the text of its CSV file."""
    import kgqa

    (folder / "tables").mkdir()
    for table, text in tables.items():
        (folder / "tables" / f"{table}.csv").write_text(text, "utf-8")
    return kgqa.ingest("tables", folder / "tables", kg=name, home=folder / "home")


@pytest.fixture(scope="session")
def sample_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the bundled Freebase sample ingested."""
    from kgqa.graph.open import open_writer
    from kgqa.loaders import make_loader
    from kgqa.loading.pipeline import load as ingest
    from kgqa.progress import Silent

    home = tmp_path_factory.mktemp("home")
    with open_writer(home, "freebase") as writer:
        ingest(
            make_loader("freebase"),
            [SAMPLE / "sample.nt.gz"],
            "freebase",
            writer,
            home / "freebase",
            Silent(),
        )
    return home


@pytest.fixture(scope="session")
def sample(sample_home: Path) -> Iterator[SqliteStore]:
    """The bundled sample."""
    from kgqa.graph.sqlite import SqliteStore

    with SqliteStore(sample_home / "freebase" / "graph.sqlite", name="freebase") as store:
        yield store


@pytest.fixture(scope="module")
def in_neo4j(neo4j_server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphStore]:
    """The bundled sample, loaded into Neo4j."""
    from kgqa.graph.neo4j_store import Neo4jStore
    from kgqa.graph.neo4j_write import Neo4jWriter
    from kgqa.loaders import make_loader
    from kgqa.loading.pipeline import load as ingest
    from kgqa.progress import Silent

    folder: Path = tmp_path_factory.mktemp("rejects")
    with neo4j_server.connect() as connection:
        ingest(
            make_loader("freebase"),
            [SAMPLE / "sample.nt.gz"],
            "agree",
            Neo4jWriter(connection),
            folder,
            Silent(),
        )
        with Neo4jStore(connection, "agree") as store:
            yield store


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """A small KG: Anna, two Berts, a mediator and a value."""
    from kgqa.graph.model import Kind
    from tests.graph.tables import entity, tables_of
    from tests.trie.language import store_of

    entities = [
        entity("e.anna", "Anna"),
        entity("e.bert", "Bert", "Bertie"),
        entity("e.bert2", "Bert"),
        entity("e.oslo", "Oslo"),
        entity("e.norway", "Norway"),
        entity("e.sweden", "Sweden"),
        entity("e.alone", "Alone"),
        entity("m.job", kind=Kind.MEDIATOR),
        entity("e.clerk", "Clerk"),
        entity('"1984"^^xsd:gYear', "1984", kind=Kind.VALUE),
    ]
    edges = [
        ("e.anna", "born_in", "e.oslo"),
        ("e.anna", "friend", "e.bert"),
        ("e.anna", "friend", "e.bert2"),
        ("e.oslo", "in", "e.norway"),
        ("e.anna", "visited", "e.norway"),
        ("e.anna", "visited", "e.sweden"),
        ("e.anna", "job", "m.job"),
        ("m.job", "title", "e.clerk"),
        ("e.anna", "born_when", '"1984"^^xsd:gYear'),
        ("e.clerk", "alone", "e.alone"),
    ]
    tables = tables_of(entities, edges, name="small")
    with store_of(tables, tmp_path_factory.mktemp("small")) as store:
        yield store


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data; a test that asks for it is skipped if there is none."""
    named = os.environ.get("KGQA_SHARED", Path(__file__).resolve().parents[2] / "shared")
    folder = Path(named) / "data"
    if not folder.is_dir():
        pytest.skip(f"there is no folder {folder}; KGQA_SHARED names the one above it")
    return folder


def random_model(llm: KgLLM, seed: int) -> KgLLM:
    """SmolLM2's tokenizer before a tiny model with random weights: it prefers nothing sensible."""
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32}
    ids = {"bos_token_id": None, "eos_token_id": llm.encoder.eos_id}
    model = tiny(llm.encoder.vocab_size, seed, **heads, **ids, initializer_range=0.3)
    model.requires_grad_(False)
    return replace(llm, model=model, name=f"random weights {seed}", adapter=None, plans=None)


@pytest.fixture(scope="session")
def random_llm(kg_llm: KgLLM) -> KgLLM:
    """A model that knows nothing; see ``random_model``."""
    return random_model(kg_llm, 0)


@pytest.fixture
def index(sample: SqliteStore, random_llm: KgLLM, tmp_path: Path) -> Iterator[TrieIndex]:
    """An index of two topic entities, closed at the end."""
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.parallel import LocalExecutor
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import WalkRules
    from kgqa.progress import Silent
    from kgqa.trie.index import IndexKey, IndexWriter, open_index
    from kgqa.trie.lexicon import PathLexicon
    from kgqa.trie.precompute import precompute

    form, rules = PathFormat(), WalkRules()
    encoder = random_llm.encoder
    key = IndexKey.of(sample.info, encoder, form, rules)
    path = Path(unquote(urlsplit(sample.url).path))
    precompute(
        lambda: (SqliteStore(path), PathLexicon(encoder, form)),
        IndexWriter(tmp_path, key, PathLexicon(encoder, form), cap=9999, tokenizer_name="x"),
        topics=sample.keys_of([TOLKIEN, LINCOLN]),
        executor=LocalExecutor(),
        progress=Silent(),
    )
    with open_index(tmp_path, key) as opened:
        yield opened
