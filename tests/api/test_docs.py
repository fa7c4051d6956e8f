"""The Python that the README and the docs show runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the bundled sample under the names that the README and the docs give it."""
    import kgqa

    folder = tmp_path_factory.mktemp("home")
    for name in ("freebase", "freebase-sample"):
        kgqa.ingest("freebase", kg=name, home=folder).close()
    facts = folder / "facts.tsv"
    facts.write_text(
        "checkout-api\tdependsOn\tprice-feed\n"
        "checkout-api\tonCallEngineer\tAda Birch\n"
        "checkout-api\townedBy\tPayments\n"
        "price-feed\tonCallEngineer\tBo Lindt\n"
        "price-feed\townedBy\tPricing\n"
    )
    kgqa.ingest("triples", facts, kg="on-call", home=folder).close()
    return folder


@pytest.fixture
def names(
    home: Path, smollm_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    monkeypatch.setenv("KGQA_HOME", str(home))
    given: dict[str, Any] = {"home": home, "folder": smollm_folder}
    yield given
    if "kg" in given:
        given["kg"].close()


def blocks(document: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.model
def test_the_readme_asks_in_five_lines(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    exec(blocks("README.md")[0], names)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("Ron Howard Apollo 13 -> ")
    assert shown[1:] == ["Bloemfontein", "Ron Howard"]


@pytest.mark.model
@pytest.mark.parametrize(("document", "number"), [("README.md", 1), ("docs/decoding.md", 0)])
def test_generate_writes_paths_of_the_graph(
    names: dict[str, Any], document: str, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(blocks(document)[number], names)
    paths = capsys.readouterr().out.strip().splitlines()
    assert len(set(paths)) == 5
    assert all(path.startswith("J. R. R. Tolkien -> ") for path in paths)


@pytest.mark.model
def test_a_rule_that_allows_everything_leaves_the_graph_and_ours_does_not(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    exec(blocks("docs/concepts.md")[0], names)
    shown = capsys.readouterr().out.splitlines()
    printed = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    assert shown[3] == "0 of 3 are paths of the graph"
    assert "\n".join(shown[4:]) in printed
    assert shown[-1] == "3 of 3 are paths of the graph"
