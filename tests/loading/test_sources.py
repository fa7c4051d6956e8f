"""Which files a load takes, and what it reports if there are none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import DumpNotFoundError, UsageError
from kgqa.loading.sources import find_sources
from kgqa.registry import LOADERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.model import Batch, Direction
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress


class Named:
    """As much of a loader as finding its dump needs."""

    direction: Direction = "out"
    licence = "CC-BY 2.5"
    where = "https://example.org/dump"

    def __init__(self, name: str) -> None:
        self.name = name
        for attribute in ("dump", "sample"):
            if hasattr(LOADERS.entry(name).load(), attribute):
                setattr(self, attribute, getattr(LOADERS.entry(name).load(), attribute))

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        raise AssertionError("finding a dump must not read it")


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def test_what_the_user_names_is_taken_as_it_is(tmp_path: Path) -> None:
    touch(tmp_path / "x.nt", tmp_path / "dumps" / "freebase-rdf-latest.gz")
    found = find_sources(Named("freebase"), [tmp_path / "x.nt"], tmp_path / "dumps")
    assert (found.paths, found.bundled, found.note) == ((tmp_path / "x.nt",), False, "")
    assert found.described == "x.nt"


def test_what_is_not_there_is_named_with_where_the_dump_is_had(tmp_path: Path) -> None:
    with pytest.raises(DumpNotFoundError, match=r"gone\.gz.*example\.org"):
        find_sources(Named("freebase"), [tmp_path / "gone.gz"], tmp_path)
    with pytest.raises(DumpNotFoundError):
        find_sources(Named("triples"), [tmp_path / "gone.tsv"], tmp_path)


@pytest.mark.parametrize(
    ("name", "files", "taken"),
    [
        ("freebase", ["freebase-rdf-latest.gz", "freebase-rdf-2015.gz"], "freebase-rdf-latest.gz"),
        ("freebase", ["freebase-rdf-2014-01.gz", "freebase-rdf-2015-08.gz", "readme"],
         "freebase-rdf-2015-08.gz"),
        ("conceptnet", ["assertions.csv", "conceptnet-assertions-5.7.0.csv.gz"],
         "conceptnet-assertions-5.7.0.csv.gz"),
        ("conceptnet", ["my_assertions_part.csv"], "my_assertions_part.csv"),
        ("umls", ["2024AA/META/MRCONSO.RRF"], "2024AA/META"),
        ("umls", ["META/readme", "umls/2024AA/META/MRCONSO.RRF.gz"], "umls/2024AA/META"),
        ("umls", ["MRCONSO.RRF"], "."),
    ],
)  # fmt: skip
def test_a_dump_is_found_by_the_name_it_is_downloaded_with(
    tmp_path: Path, name: str, files: list[str], taken: str
) -> None:
    touch(*(tmp_path / file for file in files))
    found = find_sources(Named(name), [], tmp_path)
    assert found.paths == (tmp_path / taken,)
    assert not found.bundled
    assert str(tmp_path / taken) in found.note
    if "freebase-rdf-2014-01.gz" not in files:
        named = find_sources(Named(name), [tmp_path], Path("nowhere"))
        assert named.paths == found.paths
        assert named.note == ("" if taken == "." else f"Loading {tmp_path / taken}.")


def test_of_several_dumps_the_last_is_taken_and_the_others_are_named(tmp_path: Path) -> None:
    touch(tmp_path / "freebase-rdf-2014-01.gz", tmp_path / "freebase-rdf-2015-08.gz")
    found = find_sources(Named("freebase"), [], tmp_path)
    assert "Not loaded: freebase-rdf-2014-01.gz" in found.note


@pytest.mark.parametrize(
    ("name", "file"), [("freebase", "freebase-rdf-{}.gz"), ("conceptnet", "assertions-{}.csv")]
)
def test_a_named_folder_never_loses_a_part_in_silence(tmp_path: Path, name: str, file: str) -> None:
    parts = [tmp_path / file.format(number) for number in ("00", "01")]
    touch(*parts)
    with pytest.raises(UsageError, match=f"several files.*{parts[0].name}, {parts[1].name}"):
        find_sources(Named(name), [tmp_path], tmp_path)
    assert find_sources(Named(name), parts, tmp_path).paths == tuple(parts)


@pytest.mark.parametrize("name", ["freebase", "conceptnet"])
def test_a_folder_of_parts_with_names_of_their_own_is_left_to_the_loader(
    tmp_path: Path, name: str
) -> None:
    touch(tmp_path / "part-00", tmp_path / "part-01.gz")
    assert find_sources(Named(name), [tmp_path], tmp_path).paths == (tmp_path,)


def test_a_named_folder_without_the_dump_is_an_error(tmp_path: Path) -> None:
    touch(tmp_path / ".hidden")
    for name in ("freebase", "conceptnet", "umls"):
        with pytest.raises(DumpNotFoundError, match=f"no {name} dump"):
            find_sources(Named(name), [tmp_path], tmp_path)
    touch(tmp_path / "readme")
    with pytest.raises(DumpNotFoundError, match="no umls dump"):
        find_sources(Named("umls"), [tmp_path], tmp_path)


def test_triples_have_no_names_of_dumps_and_no_sample(tmp_path: Path) -> None:
    assert find_sources(Named("triples"), [tmp_path], tmp_path).paths == (tmp_path,)
    with pytest.raises(UsageError, match="SOURCE"):
        find_sources(Named("triples"), [], tmp_path)


@pytest.mark.parametrize("name", ["freebase", "conceptnet", "umls"])
def test_without_a_dump_the_sample_is_taken_and_said_to_be_one(tmp_path: Path, name: str) -> None:
    found = find_sources(Named(name), [], tmp_path / "not made yet")
    assert found.bundled
    assert found.paths[0].exists()
    for said in ("sample", "https://example.org/dump", "CC-BY 2.5", str(tmp_path)):
        assert said in found.note
    assert found.described == "bundled sample"
