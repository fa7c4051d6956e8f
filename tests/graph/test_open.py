"""Which KG a URL and a name mean, and what is said if they mean none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import KGNotFoundError, KgqaError, StoreUnavailableError, UsageError
from kgqa.graph.neo4j_backend import Neo4jStores
from kgqa.graph.open import check_kg_name, list_kgs, open_store, open_writer, store_backend
from kgqa.progress import Silent
from kgqa.registry import STORES, Entry
from tests.graph.memory_store import MemoryStores
from tests.graph.store_conformance import entity, tables_of

if TYPE_CHECKING:
    from kgqa.graph.model import GraphTables


def a_kg(name: str) -> GraphTables:
    return tables_of([entity("a", "A"), entity("b", "B")], [("a", "r", "b")], name=name)


def put(url: str | Path, *names: str) -> None:
    for name in names:
        with open_writer(url, name) as writer:
            writer.write(a_kg(name), Silent())


def test_the_only_kg_of_a_home_is_meant(tmp_path: Path) -> None:
    put(tmp_path, "films")
    assert (tmp_path / "films" / "graph.sqlite").exists()
    with open_store(tmp_path) as store:
        assert store.info.name == "films"
    with open_store(f"sqlite:///{tmp_path}", "films") as store:
        assert store.info.name == "films"


def test_of_several_kgs_one_must_be_named(tmp_path: Path) -> None:
    put(tmp_path, "films", "books")
    with pytest.raises(UsageError, match=r"books, films.*`kg`"):
        open_store(tmp_path)
    with open_store(tmp_path, "books") as store:
        assert store.info.name == "books"
    with pytest.raises(KGNotFoundError, match=r"no KG named music.*books, films"):
        open_store(tmp_path, "music")
    assert [info.name for info in list_kgs(tmp_path)] == ["books", "films"]


@pytest.mark.parametrize("kg", [None, "freebase"])
def test_where_there_is_none_the_error_says_what_loads_one(tmp_path: Path, kg: str | None) -> None:
    for home in (tmp_path, tmp_path / "not made yet"):
        with pytest.raises(KGNotFoundError, match="kgqa ingest freebase"):
            open_store(home, kg)
        assert list_kgs(home) == []


def test_one_damaged_store_hides_no_other(tmp_path: Path) -> None:
    put(tmp_path, "films", "books")
    (tmp_path / "films" / "graph.sqlite").write_bytes(b"no database")
    faults: list[KgqaError] = []
    assert [info.name for info in list_kgs(tmp_path, faults=faults)] == ["books"]
    assert "films" in str(faults[0])
    for kg in ("films", None):  # without a name, the damaged one may be meant
        with pytest.raises(StoreUnavailableError, match="films"):
            open_store(tmp_path, kg)
    with open_store(tmp_path, "books") as store:
        assert store.info.name == "books"


def test_the_only_store_being_damaged_is_said(tmp_path: Path) -> None:
    put(tmp_path, "films")
    (tmp_path / "films" / "graph.sqlite").write_bytes(b"no database")
    with pytest.raises(StoreUnavailableError, match="not an SQLite file"):
        open_store(tmp_path)


def test_a_kg_in_a_home_is_named_after_its_folder(tmp_path: Path) -> None:
    put(tmp_path, "films")
    (tmp_path / "films").rename(tmp_path / "movies")
    assert [info.name for info in list_kgs(tmp_path)] == ["movies"]
    with open_store(tmp_path, "movies") as store:
        assert store.info.name == "movies"


def test_a_file_holds_one_kg(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/one.sqlite"
    assert list_kgs(url) == []
    put(url, "films")
    with open_store(url) as store:
        assert store.url == url
    with open_store(tmp_path / "one.sqlite", "films") as store:
        assert store.info.name == "films"
    with pytest.raises(KGNotFoundError, match=r"no KG named books.*films"):
        open_store(url, "books")
    assert [info.name for info in list_kgs(url)] == ["films"]


def test_a_file_of_another_kg_or_program_is_not_overwritten(tmp_path: Path) -> None:
    put(tmp_path / "one.sqlite", "films")
    with (
        pytest.raises(UsageError, match="holds the KG films, not books"),
        open_writer(tmp_path / "one.sqlite", "books"),
    ):
        pass
    (tmp_path / "mine.db").write_text("dear diary")
    with pytest.raises(UsageError, match=r"mine\.db"), open_writer(tmp_path / "mine.db", "films"):
        pass
    assert (tmp_path / "mine.db").read_text() == "dear diary"


def test_a_missing_file_says_what_loads_one(tmp_path: Path) -> None:
    with pytest.raises(KGNotFoundError, match="kgqa ingest"):
        open_store(f"sqlite:///{tmp_path}/none.sqlite")


def test_three_slashes_are_relative_and_four_absolute() -> None:
    here = Path.cwd().as_posix()
    for url in ("sqlite:///some/x.sqlite", "some/x.sqlite"):
        assert store_backend(url).url == f"sqlite:///{here}/some/x.sqlite"
        assert store_backend(url).holds_one
    assert store_backend("sqlite:////some/x.sqlite").url == "sqlite:////some/x.sqlite"
    assert store_backend("some/folder").home == Path("some/folder")


def test_credentials_in_a_url_are_taken_out_and_never_shown() -> None:
    url = "neo4j+s://me:se%40cret@host:7687"
    server = store_backend(url, username="other", password="given")
    assert isinstance(server, Neo4jStores)
    assert (server.url, server.full_url) == ("neo4j+s://host:7687", url)
    connection = server.connect()
    assert (connection.username, connection._auth) == ("me", ("me", "se@cret"))
    assert "cret" not in repr(server) + connection.url
    assert "given" not in repr(server._options)


@pytest.mark.parametrize(
    "url",
    ["", "sqlite://", "sqlite:///", "postgres://me:secret@host/x", "neo4j://", "neo4j://h:port",
     "bolt://me:secret@:7687", "ftp://host", "https://me:secret@host/sparql",
     "https://", "bolt+x://host"],
)  # fmt: skip
def test_a_url_that_names_no_store_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        store_backend(url)
    assert "secret" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "kg", ["", ".", "..", "a/b", "../x", ".hidden", "a b", "a\n", "-x", "cache", "Dumps", "x" * 101]
)
def test_a_name_that_is_no_folder_or_label_is_refused(tmp_path: Path, kg: str) -> None:
    with pytest.raises(UsageError, match="cannot name a KG"):
        check_kg_name(kg)
    with pytest.raises(UsageError), open_writer(tmp_path, kg):
        pass
    with pytest.raises(KgqaError):
        open_store(tmp_path, kg)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kg", ["freebase", "fb15k-237", "v1.2", "知識", "_x", "2wiki"])
def test_an_ordinary_name_is_taken(kg: str) -> None:
    assert check_kg_name(kg) == kg


class TestStoresOfOtherPackages:
    """One class and one registration: then a URL of its scheme is opened like any other."""

    @pytest.fixture(autouse=True)
    def shelf(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(MemoryStores.shelves, "books", tmp_path)
        monkeypatch.setattr(STORES, "_added", {})
        STORES.add(Entry("memory", "tests.graph.memory_store:MemoryStores", "of a test"))

    def test_a_kg_is_written_listed_and_opened_by_the_url(self) -> None:
        url = "memory://books"
        for name in ("films", "music"):
            with open_writer(url, name, token="sesame") as writer:
                writer.write(a_kg(name), Silent())
        assert [info.name for info in list_kgs(url, token="sesame")] == ["films", "music"]
        with open_store(url, "films", token="sesame") as store:
            assert store.keys_of(["b"]).tolist() == [1]
        with pytest.raises(UsageError, match="several KGs in memory://books"):
            open_store(url, token="sesame")

    def test_its_options_are_checked_and_those_of_other_stores_passed_over(self) -> None:
        with pytest.raises(UsageError, match="shelf is closed"):
            open_store("memory://books", username="me", password="secret", method="bolt")
        with pytest.raises(UsageError, match=r"`tokn` does not belong to the store memory"):
            open_store("memory://books", tokn="sesame")
        with pytest.raises(UsageError, match="`token` does not belong to the store sqlite"):
            list_kgs("here.sqlite", token="sesame")

    def test_a_scheme_that_nobody_has_lists_those_there_are(self) -> None:
        with pytest.raises(
            UsageError, match=r"sqlite://, neo4j://, bolt://, https://, http://, memory://"
        ):
            open_store("cloud://books")


def test_an_option_of_neo4j_is_checked_for_a_server_only() -> None:
    with pytest.raises(UsageError, match="`method` of the store bolt cannot be 'mail'"):
        list_kgs("bolt://localhost:1", method="mail")
