"""The registries: every built-in name resolves, options are checked, other packages can add."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic.fields import FieldInfo

from kgqa import registry
from kgqa.errors import UsageError
from kgqa.registry import Entry, Options, Registry, option, validated

ROOT = Path(__file__).parents[1]
TABLES = [
    registry.LOADERS,
    registry.METHODS,
    registry.SEARCHES,
    registry.STORES,
    registry.QUESTION_FORMATS,
]
ENTRIES = [(table, entry) for table in TABLES for entry in table.table]


@pytest.mark.parametrize(
    ("table", "entry"), ENTRIES, ids=[f"{table.kind}-{entry.name}" for table, entry in ENTRIES]
)
def test_every_built_in_entry_resolves_and_documents_its_options(
    table: Registry, entry: Entry
) -> None:
    assert isinstance(entry.load(), type)
    assert entry.help
    model = entry.options_model()
    for name, info in model.model_fields.items():
        assert info.description, f"{entry.name}.{name} has no sentence"
    assert table.options(entry.name, {}) == model() or model.parts


def test_a_built_in_loader_is_one_file_and_one_registration() -> None:
    for entry in registry.LOADERS.table:
        module, _, name = entry.target.partition(":")
        assert (entry.options, entry.options_model().__module__) == ("", module)
        assert (entry.load().name, entry.load().__name__) == (entry.name, name)
        places = [*(ROOT / "kgqa").rglob("*.py"), *(ROOT / "loaders").glob("*.py")]
        held = [path for path in places if name in path.read_text("utf-8")]
        assert {path.name for path in held} == {"registry.py", module.rpartition(".")[2] + ".py"}
    code = "import sys; from kgqa.cli import main; sys.argv = ['kgqa', 'ingest', '-h']; main()"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    listed = ", ".join(entry.name for entry in registry.LOADERS.table)
    assert f"The kind of dump: {listed}." in " ".join(re.sub(r"[│\n]", " ", shown.stdout).split())


def test_a_built_in_method_or_search_is_named_by_its_registration_alone() -> None:
    """Commands, presets and the server know methods and searches by the registries."""
    names = {one.name for of in (registry.METHODS, registry.SEARCHES) for one in of.table}
    names -= {"query", "sample"}  # a command's and a field's names, too
    rooms = [ROOT / "kgqa" / room for room in ("cli", "server", "api")]
    found = {
        (path.name, node.value)
        for room in rooms
        for path in room.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    }
    # the default; what `kgqa train` trains; how a file is loaded; the searches' own field
    assert found <= {
        ("kg.py", "auto"),
        ("train.py", "kg-cot"),
        ("train.py", "dog"),
        ("loading.py", "auto"),
    }


def test_options_models_of_methods_and_searches_load_nothing_heavy() -> None:
    code = (
        "import sys; from kgqa.registry import METHODS, SEARCHES; "
        "[e.options_model() for t in (METHODS, SEARCHES) for e in t.table]; print(*sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(shown.stdout.split())
    assert not loaded & {"torch", "transformers", "numpy", "pyarrow", "neo4j", "kgqa.graph"}


class Colour(Options):
    shade: Literal["dark", "light"] = option("dark", "How dark it is.", flag=True)
    share: float = option(0.5, "How much of it there is.", ge=0, le=1)
    grain: int | None = option(None, "How coarse a light one is.")

    only_for: ClassVar[Mapping[str, tuple[str, str]]] = {"grain": ("shade", "light")}


class Painting(Options):
    parts: ClassVar[Mapping[str, Registry]] = {}

    colour: str = option("plain", "Which colour.")
    colour_options: Any = option(None, "The colour's own options.")


class Plain:
    Options = Colour


COLOURS = Registry("colour", "kgqa.tests", (Entry("plain", "tests.test_registry:Plain", "plain"),))


def test_text_is_converted_to_the_type_of_the_option() -> None:
    made = COLOURS.options("plain", {"share": "0.25", "shade": None})
    assert (made.share, made.shade) == (0.25, "dark")
    assert made.given() == {"share": 0.25}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"shade": "pink"}, ["`shade`", "the colour plain", "pink", "light"]),
        ({"share": 2}, ["`share`", "2", "less than or equal to 1"]),
        ({"shades": 1}, ["`shades`", "the colour plain", "`shade`"]),
        ({"nothing": 1}, ["`nothing`", "shade, share, grain"]),
        ({"grain": 3}, ["`grain`", "shade light", "dark"]),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        COLOURS.options("plain", given)
    assert all(word in str(caught.value) for word in words), caught.value


def test_options_of_a_part_are_given_beside_those_of_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Painting, "parts", {"colour": COLOURS})
    made = validated(Painting, {"share": "1"}, "a painting")
    assert made.colour_options == Colour(share=1)
    with pytest.raises(UsageError, match="`depth` does not belong to a painting"):
        validated(Painting, {"depth": 1}, "a painting")
    with pytest.raises(UsageError, match="`share` of the colour plain"):
        validated(Painting, {"share": "much"}, "a painting")


def test_an_unknown_name_gets_the_nearest_and_the_list() -> None:
    with pytest.raises(
        UsageError, match=r"The method 'gcc' does not exist.*Did you mean 'gcr'.*kg-cot"
    ):
        registry.METHODS.entry("gcc")


def test_a_built_in_name_cannot_be_taken() -> None:
    with pytest.raises(UsageError, match="built-in method 'gcr'"):
        registry.METHODS.add(Entry("gcr", "somewhere:Else"))


def test_entry_points_of_other_packages_are_found_and_read_for_unknown_names_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def points(group: str) -> list[EntryPoint]:
        asked.append(group)
        return [EntryPoint("striped", "tests.test_registry:Plain", group)]

    monkeypatch.setattr("importlib.metadata.entry_points", points)
    table = Registry("colour", "kgqa.tests", COLOURS.table)
    assert table.entry("plain").load() is Plain
    assert asked == []
    assert table.entry("striped").load() is Plain
    assert table.names() == ["plain", "striped"]
    assert asked == ["kgqa.tests"] * 2


def test_a_class_that_cannot_be_imported_is_an_error_that_says_why() -> None:
    entry = Entry("broken", "kgqa.no_such_module:Thing")
    with pytest.raises(UsageError, match=r"'broken' cannot be used.*no_such_module"):
        entry.load()


def test_the_words_of_a_type() -> None:
    assert [registry.type_words(info) for info in Colour.model_fields.values()] == [
        "dark | light",
        "float",
        "int",
    ]
    assert registry.type_words(FieldInfo(annotation=str)) == "str"


def test_the_page_of_options_is_what_the_registries_say() -> None:
    script = ROOT / "scripts" / "options_page"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def (", "invalid syntax"),
        ("raise Exception('no \\x1b[2J licence')", "no \x1b[2J licence"),
        ("import sys; sys.exit(3)", "3"),
        ("raise SystemExit", "SystemExit"),
    ],
)
def test_another_packages_code_that_fails_is_named_and_harms_no_other(
    code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_plugin.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "failing_plugin", raising=False)

    def points(group: str) -> list[EntryPoint]:
        return [EntryPoint("failing", "failing_plugin:Search", group)]

    monkeypatch.setattr("importlib.metadata.entry_points", points)
    with pytest.raises(UsageError, match=r"'failing' cannot be used, since failing_plugin:S") as no:
        registry.SEARCHES.entry("failing").load()
    assert said in str(no.value)
    assert {"gcr", "rank"} <= {name for names in registry.options().values() for name in names}
    assert any("k" in fields for fields in registry.options("gcr").values())


@pytest.mark.parametrize("name", [["rank"], {"a": 1}, 3, None, float("nan")])
def test_a_name_that_is_no_text_is_refused(name: Any) -> None:
    with pytest.raises(UsageError, match=r"The method .* is not a name"):
        registry.METHODS.entry(name)
