"""The library's one door: open, ingest, ask, and what a KG, a session and an answer offer."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import kgqa
from kgqa.errors import EntityNotFoundError, KGNotFoundError, LinkingError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = "Where was J. R. R. Tolkien born?"
BIRTHPLACE = "m.0c499"
TRIPLES = "Ada\tknows\tGrace\nGrace\tlives in\tParis\n"


def test_importing_the_library_loads_nothing_heavy_and_names_what_there_is() -> None:
    code = "import kgqa, sys; print(*dir(kgqa)); print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, modules = (line.split() for line in shown.stdout.splitlines())
    assert {"open", "ingest", "ask", "KG", "QA", "Answer"} <= set(names)
    assert not {"torch", "transformers", "numpy", "pyarrow", "pydantic", "neo4j"} & set(modules)


def test_every_public_name_can_be_imported() -> None:
    for name in kgqa.__all__:
        assert getattr(kgqa, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kgqa.nothing  # noqa: B018


def test_each_public_function_works_twice_in_one_process(sample_home: Path, tmp_path: Path) -> None:
    """No public name is shadowed by a subpackage that the first call imports."""
    dump = tmp_path / "people.tsv"
    dump.write_text(TRIPLES, "utf-8")
    for number in range(2):
        home = tmp_path / f"home{number}"
        with kgqa.ingest("triples", dump, home=home) as made:
            assert made.info.edges == 2
            assert made.loaded is not None
            assert made.loaded["lines"] == 2
        with kgqa.open(home=home) as found:
            assert found.name == "people"
        assert kgqa.status(home)["kgs"][0]["name"] == "people"
        assert "gcr" in kgqa.options()["methods"]
        assert "k" in kgqa.options("gcr")["methods"]


@pytest.mark.model
def test_ask_answers_about_the_only_kg(sample_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGQA_HOME", str(sample_home))
    answer = kgqa.ask(QUESTION, k=2)
    assert answer.best is not None
    assert answer.best.id == BIRTHPLACE


@pytest.mark.parametrize("way", ["name", "folder", "file", "url", "only"])
def test_open_takes_a_name_a_folder_a_file_and_a_url(sample_home: Path, way: str) -> None:
    folder = sample_home / "freebase"
    named: dict[str, tuple[Any, dict[str, Any]]] = {
        "name": ("freebase", {"home": sample_home}),
        "folder": (folder, {}),
        "file": (folder / "graph.sqlite", {}),
        "url": (f"sqlite:///{folder / 'graph.sqlite'}", {}),
        "only": (None, {"home": sample_home}),
    }
    given, options = named[way]
    with kgqa.open(given, **options) as kg:
        assert kg.info.entities > 1000
        assert "entities" in repr(kg)


def test_a_kg_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KGNotFoundError, match="no KG"):
        kgqa.open("nothing", home=tmp_path)


def test_options_are_checked_before_anything_is_loaded(kg: kgqa.KG) -> None:
    with pytest.raises(UsageError, match="`k`"):
        kg.qa(k=0)
    with pytest.raises(UsageError, match="`beams` does not belong to the method auto"):
        kg.qa(beams=2)
    with pytest.raises(UsageError, match="The method 'guess' does not exist"):
        kg.ask(QUESTION, method="guess")


@pytest.mark.parametrize("after", ["who?", [None], [{"question": "who?"}], 5])
def test_what_is_no_answer_is_no_earlier_turn(kg: kgqa.KG, after: Any) -> None:
    with pytest.raises(UsageError, match="`after` holds something other than an answer"):
        kg.ask("and her children?", after=after)


@pytest.mark.parametrize("method", ["rank", "query", "auto"])
def test_half_a_surrogate_pair_is_no_question(tmp_path: Path, method: str) -> None:
    with kgqa.ingest("triples", [("Ada", "knows", "Grace")], kg="kg", home=tmp_path) as small:
        half = "who knows \ud800 Ada"
        with pytest.raises(UsageError, match="surrogate"):
            small.ask(half, method=method)
        first, second = small.qa(method).batch([half, "who does Ada know?"])
        assert isinstance(first.error, UsageError)
        assert second.error is None


@pytest.fixture(scope="module")
def answer(kg: kgqa.KG) -> kgqa.Answer:
    return kg.ask(QUESTION, k=3)


@pytest.mark.model
def test_an_answer_says_what_it_is_and_why(answer: kgqa.Answer) -> None:
    best = answer.best
    assert best is not None
    assert best.id == BIRTHPLACE
    assert best == answer.answers[0]
    behind = answer.paths_of(best)
    assert behind
    assert all(path.edges[-1].tail.id == best.id for path in behind)
    found = answer.to_dict()
    for index in found["answers"][0]["paths"]:
        assert found["paths"][index]["edges"][-1]["tail"]["id"] == best.id
    assert best.name in repr(answer)
    assert QUESTION in repr(answer)
    drawn = answer._repr_html_()
    assert "<svg" in drawn
    assert best.name in drawn


@pytest.mark.model
def test_a_session_answers_batches_in_order_and_goes_on_after_a_failure(kg: kgqa.KG) -> None:
    asked = [QUESTION, "Where does Zaphod Qwxyz live?", "Who directed Apollo 13?"]
    with kg.qa(k=2) as qa:
        found = list(qa.batch(asked))
        assert [one.question for one in found] == asked
        assert isinstance(found[1].error, LinkingError)
        assert found[1].to_dict() == {
            "question": asked[1],
            "error": {"message": found[1].error.message, "hint": found[1].error.hint},
        }
        assert found[0].error is None
        with pytest.raises(LinkingError):
            list(qa.batch(asked, errors="raise"))
        alone = qa.ask(asked[2])
        assert [ranked.id for ranked in alone.answers] == [ranked.id for ranked in found[2].answers]
        own = kgqa.Question("1", "Which place?", ["m.041h0"], [])
        (named,) = qa.batch([own])
        assert [entity.id for entity in named.topic_entities] == ["m.041h0"]


@pytest.mark.model
def test_the_default_method_answers_alike_in_any_batch(kg: kgqa.KG) -> None:
    asked = [
        QUESTION,
        "How many people were born in New York City?",
        "Which team drafted LeBron James?",
        "Who directed Apollo 13?",
    ]

    def shown(answer: kgqa.Answer) -> tuple[Any, ...]:
        found = [(ranked.id, ranked.name) for ranked in (*answer.answers, *answer.others)]
        return found, sorted(path.text for path in answer.paths), answer.notes

    with kg.qa() as qa:
        alone = {one: qa.ask(one) for one in asked}
        for together in (asked[::-1], asked[1:3]):
            for one in qa.batch(together):
                assert shown(one) == shown(alone[one.question])
                assert one.confidence == pytest.approx(alone[one.question].confidence, abs=1e-4)
        both = {*asked} - {one for one in asked if alone[one].forward_passes <= 1}
        assert both  # some are decoded


@pytest.mark.model
def test_answers_and_paths_are_tables(
    kg: kgqa.KG, answer: kgqa.Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa

    table = pa.table(answer)  # by the interface that every data frame library reads
    assert table == answer.to_arrow()
    assert table.column("id").to_pylist() == [ranked.id for ranked in answer.answers]
    assert table.column("path").to_pylist() == [ranked.paths[0].text for ranked in answer.answers]
    paths = kg.paths("m.041h0", limit=7)
    rows = paths.to_arrow().to_pylist()
    assert [row["path"] for row in rows] == [path.text for path in paths.paths]
    assert [row["tail_id"] for row in rows] == [path.tail.id for path in paths.paths]
    monkeypatch.setattr("kgqa.tabular.find_spec", lambda name: None)
    with pytest.raises(kgqa.KgqaError, match="pip install pandas"):
        paths.to_frame()


def test_the_table_of_a_plan_has_integers_of_any_size_and_every_column(tmp_path: Path) -> None:
    rows = [{"name": "Ton", "weight": 9 * 10**18}, {"name": "Tun", "weight": 91 * 10**17}]
    with kgqa.ingest("tables", rows, kg="thing", home=tmp_path) as things:
        asked = things.ask("What is the total weight of all things?", method="query")
        assert asked.value == 181 * 10**17
        for result in (asked, things.query("Thing | give sum Thing.weight")):
            assert result.to_arrow().column(0).to_pylist() == [str(181 * 10**17)]
        twice = things.query("Thing | give Thing, Thing.weight, Thing")
        assert replace(asked, result=twice).to_arrow() == twice.to_arrow()
        assert twice.to_arrow().num_columns == 3


def test_what_a_plan_gave_is_whole_when_its_kg_is_closed(tmp_path: Path) -> None:
    (tmp_path / "films.csv").write_text("title,director,year\nOne,Ann,1990\nTwo,Ann,1991\n")
    with kgqa.ingest("tables", tmp_path / "films.csv", home=tmp_path / "home") as kg:
        results = [kg.ask("How many films did Ann direct?"), kg.query("Film | give Film.year")]
        results += kg.qa().batch(["Which films did Ann direct in 1990?"])
        query = results[0].result, results[2].result
        assert all(query)
        before = [result.to_dict() for result in results]
    assert [result.to_dict() for result in results] == before
    assert all(row["properties"] for row in before[1]["rows"])


def test_a_deleted_kg_leaves_nothing_and_others_stay(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.tsv").write_text("a\tto\tb\n")
        kgqa.ingest("triples", tmp_path / f"{name}.tsv", home=tmp_path / "home").close()
    deleted = kgqa.delete("one", home=tmp_path / "home")
    assert deleted["graph"] == f"sqlite:///{tmp_path}/home"
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["two"]
    assert [kg["name"] for kg in kgqa.status(tmp_path / "home")["kgs"]] == ["two"]
    with pytest.raises(KGNotFoundError, match="two"):
        kgqa.delete("one", home=tmp_path / "home")


def test_a_damaged_kg_can_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "graph.sqlite").write_bytes(b"not a database")
    assert kgqa.delete("broken", home=tmp_path)["graph"] is not None
    assert not (tmp_path / "broken").exists()


def test_a_file_that_is_no_kg_is_not_deleted(tmp_path: Path) -> None:
    file = tmp_path / "mine.sqlite"
    file.write_bytes(b"somebody's own database")
    with pytest.raises(kgqa.KgqaError):
        kgqa.delete("mine", home=tmp_path / "home", graph=f"sqlite:///{file}")
    assert file.read_bytes() == b"somebody's own database"


@pytest.mark.model
def test_a_session_reports_what_a_name_may_also_mean(kg: kgqa.KG) -> None:
    with kg.qa(k=1) as qa:
        answer = qa.ask("Where was he born?", entities=["J. R. R. Tolkien"])
    assert [entity.name for entity in answer.topic_entities] == ["J. R. R. Tolkien"]
    with pytest.raises(EntityNotFoundError, match="nobody at all"):
        kg.ask(QUESTION, entities=["nobody at all"])


def test_link_paths_and_entity(kg: kgqa.KG) -> None:
    assert kg.link(QUESTION)[0].id == "m.041h0"
    found = kg.paths("m.041h0", hops=1, limit=3)
    assert len(found.paths) == 3 < found.total
    assert all(len(path.edges) == 1 for path in found.paths)
    assert kg.entity("J. R. R. Tolkien").id == "m.041h0"


@pytest.mark.model
def test_a_session_bound_to_another_kg_shares_nothing_that_was_loaded_for_the_first(
    sample_home: Path,
) -> None:
    with kgqa.open(home=sample_home) as kg, kg.qa(k=1) as qa:
        loaded = qa.method
        with qa.on(kg.store) as other:
            assert "method" not in other.__dict__
            assert other.method is not loaded
        assert qa.method is loaded
