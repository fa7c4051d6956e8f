"""Files of settings: what nobody writes is refused in a sentence, and nothing is waited for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kgqa.errors import KgqaError
from kgqa.evaluation.query_run import read_gold
from kgqa.evaluation.record import RESULTS, RUN, read_run
from kgqa.evaluation.record import read_settings as read_settings_of_run
from kgqa.files import read_list, read_settings
from kgqa.loaders.base import Rejects, Report, data_lines
from kgqa.loaders.forms import form_of
from kgqa.loaders.tabular_table import arrow_table
from kgqa.loaders.text_paragraphs import count_paragraphs, json_entries
from kgqa.loaders.triples_pairs import read_pairs
from kgqa.paths.phrases import read_phrases
from kgqa.progress import Silent
from kgqa.questions.base import BadEntry, QuestionFile, iter_questions
from kgqa.questions.rows import file_lines
from kgqa.records import read_records
from kgqa.registry import LOADERS
from kgqa.training.data import read_topics

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a = " + "[" * 50_000 + "]" * 50_000, "nested too deeply"),
        (".".join(["a"] * 100_000) + " = 1", "nested too deeply"),
        ("#" * (17 << 20), "more than 16 MB"),
        ("a = 1\na = 2", "overwrite"),
    ],
    ids=["lists", "keys", "large", "twice"],
)
def test_a_file_of_settings_that_nobody_writes_is_refused(
    tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "some.toml"
    file.write_text(content)
    with pytest.raises(ValueError, match=said):
        read_settings(file)


def test_settings_are_read_with_the_mark_that_editors_put_first(tmp_path: Path) -> None:
    for name, content in (("a.toml", 'a = "1.2"\r\n'), ("a.json", '{"a": "1.2"}')):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
        assert read_settings(tmp_path / name) == {"a": "1.2"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_no_pipe_or_device_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", Path("/dev/zero")):
        for read in (read_settings, read_list):
            with pytest.raises(OSError, match="pipe or a device"):
                read(file)


def unused() -> tuple[Report, Rejects]:
    report = Report()
    return report, Rejects(Path("rejects"), report)


def dump_of(name: str) -> Callable[[Path], object]:
    """Return what reads a file as a loader does, to its end."""

    def read(file: Path) -> object:
        loader = LOADERS.entry(name).load()(LOADERS.options(name, {}))
        return list(loader.read([file], *unused(), Silent()))

    return read


READERS: dict[str, Callable[[Path], object]] = {
    "questions": lambda file: list(iter_questions(file)),
    "graphs": lambda file: list(iter_questions(file, "rog")),
    "webqsp": lambda file: list(iter_questions(file, "webqsp")),
    "metaqa": lambda file: list(iter_questions(file, "metaqa")),
    "topics": read_topics,
    "gold": read_gold,
    "hash": lambda file: QuestionFile([], path=file).sha256(),
    "lists": lambda file: file_lines(file, "list of entities"),
    "phrases": read_phrases,
    "words": data_lines,
}
DUMPS = {name: dump_of(name) for name in ("triples", "rdf", "freebase", "conceptnet", "graph")}
DUMPS |= {
    "tables": dump_of("tables"),
    "names": lambda file: list(read_pairs(file, "names", *unused(), Silent())),
    "text": lambda file: count_paragraphs([(file, file.name)]),
    "text.json": lambda file: list(json_entries(file)),
    "form": form_of,
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("read", (READERS | DUMPS).values(), ids=READERS | DUMPS)
def test_what_is_read_twice_is_no_pipe_or_device(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(KgqaError, match=f"{file} cannot be read: it is a pipe or a device"):
            read(file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize(("name", "read"), [(RUN, read_settings_of_run), (RESULTS, read_run)])
def test_what_is_compared_is_no_pipe(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(KgqaError, match=name):
        read(tmp_path)


def test_what_is_nested_without_end_is_a_fault_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text("[" * 100_000 + "\n")
    for name in ("topics", "gold"):
        with pytest.raises(KgqaError, match="deep"):
            READERS[name](file)
    (tmp_path / RUN).write_text("[" * 100_000)
    with pytest.raises(KgqaError, match=RUN):
        read_settings_of_run(tmp_path)
    assert list(read_records(file)) == [(1, None)]
    assert all(isinstance(one, BadEntry) for one in iter_questions(file, "webqsp"))
    table = pa.table({"a": ["b"]}).replace_schema_metadata({"kgqa": "[" * 100_000})
    with pytest.raises(KgqaError, match="declares keys that cannot be read"):
        arrow_table("deep", "deep.parquet", table)


def test_no_name_of_a_file_is_no_file() -> None:
    for format in ("metaqa", "webqsp", "jsonl", "rog"):
        with pytest.raises(KgqaError, match="cannot be read"):
            list(iter_questions(Path(), format))


def test_lists_and_lines_without_an_end_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "huge.jsonl"
    with file.open("wb") as made:
        made.truncate(2 << 30)  # takes no room on the disk
    for read in READERS.values():
        if read is not READERS["hash"]:
            with pytest.raises(KgqaError, match=rf"{file} cannot be read: .* more than \d+ [GM]B"):
                read(file)


def test_other_line_ends_are_parts_of_names_in_a_list(tmp_path: Path) -> None:
    names = [f"one{mark}two" for mark in "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"]
    (tmp_path / "names.txt").write_text("\n".join(["# names", *names, ""]), "utf-8")
    assert data_lines(tmp_path / "names.txt") == names
