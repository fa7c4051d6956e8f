"""Files of text → paragraphs: Markdown, JSON, folders, ids, and what is left out and reported."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import DumpMalformedError, DumpNotFoundError, UsageError
from kgqa.loaders import text_paragraphs
from kgqa.loaders.base import Rejects, Report
from kgqa.loaders.blocks import STDIN
from kgqa.loaders.text_paragraphs import (
    Fault,
    Paragraph,
    count_paragraphs,
    files_of,
    in_parts,
    json_entries,
    paragraphs_of,
    sentences_of,
)

if TYPE_CHECKING:
    from pathlib import Path

NOTES = """\
The sea is wide.
It is deep.

# Ships ##

The **Grey Heron** is a [ship](https://x.org "y"). `Ida` sails it.
## Crew
- Ida Moll is its captain.

```python
print("no fact")

```
~~~
never closed
"""


def read(*sources: Path) -> tuple[list[Paragraph], Counter[str], list[list[str]]]:
    """Return paragraphs, what was left out, and the rejects file's rows."""
    files, _ = files_of(sources)
    dropped: Counter[str] = Counter()
    path = sources[0].parent / "out" / "rejects.tsv"
    rejects = Rejects(path, Report())
    found = list(paragraphs_of(files, dropped, rejects))
    rejects.close()
    assert count_paragraphs(files) == len(found)
    rows = path.read_text().splitlines()[1:] if path.exists() else []
    return found, dropped, [row.split("\t") for row in rows]


def test_markdown_has_titles_and_no_marks(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text(NOTES)
    found, dropped, rejected = read(path)
    assert found == [
        Paragraph("notes.md#1", "", ("The sea is wide.", "It is deep.")),
        Paragraph("notes.md#2", "Ships", ("The Grey Heron is a ship.", "Ida sails it.")),
        Paragraph("notes.md#3", "Crew", ("Ida Moll is its captain.",)),
    ]
    assert dropped == {text_paragraphs.CODE: 2}
    assert rejected == []


def test_plain_text_is_as_it_is_and_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt.gz"
    path.write_bytes(gzip.compress(b"# no title\n\na *b*\r\n\r\n\r\n\x0b\n"))
    found, *_ = read(path)
    assert [one.sentences for one in found] == [("# no title",), ("a *b*",)]
    assert {one.title for one in found} == {""}


def test_lines_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    path = tmp_path / "n.txt"
    path.write_bytes(b"A ship.\n\xff\xfe\nA boat.\n")
    found, _, rejected = read(path)
    assert found[0].sentences == ("A ship.", "A boat.")
    assert rejected[0][:2] == ["n.txt", "2"]


def test_json_lines_of_paragraphs_and_of_questions(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    question = {"_id": "1", "context": [["Kes", ["A film. ", "By Loach."]], ["Oslo", ["A city."]]]}
    rows = [
        {"id": "a", "title": "T", "text": "One. Two."},
        {"text": "Three."},
        {"id": 7, "text": "Three."},  # said before
        {"id": "a", "text": "Four."},  # an id that comes again
        {"id": "b", "text": " "},
        {"id": "b", "text": "x", "title": 3},
        {"id": True, "text": "x"},
        {"id": "s", "text": "\ud800"},
        {"context": [["Kes", "no list"]]},
        5,
        question,
        question,
    ]
    lines = [json.dumps(row) for row in rows]
    path.write_text("\n".join([*lines[:2], "", "{oops", *lines[2:]]) + "\n")
    found, dropped, rejected = read(path)
    assert [(one.id, one.title, one.sentences) for one in found] == [
        ("a", "T", ("One.", "Two.")),
        ("p.jsonl#2", "", ("Three.",)),
        ("a (p.jsonl#6)", "", ("Four.",)),
        ("p.jsonl#13.1", "Kes", ("A film.", "By Loach.")),
        ("p.jsonl#13.2", "Oslo", ("A city.",)),
    ]
    assert dropped == {text_paragraphs.REPEATED: 3}
    assert [row[1] for row in rejected] == ["4", "7", "8", "9", "10", "11", "12"]
    assert rejected[0][2].startswith("no JSON")
    assert rejected[4][2] == text_paragraphs.SURROGATE


def test_a_list_is_read_by_its_entries(tmp_path: Path) -> None:
    rows = [{"text": f"Número {at}.", "id": str(at)} for at in range(40)]
    path = tmp_path / "p.json"
    path.write_text("\ufeff \n" + json.dumps([*rows, 3], ensure_ascii=False, indent=1), "utf-8")
    read_back = list(json_entries(path))
    assert read_back == [
        *enumerate(rows, 1),
        (41, Fault("no JSON object", "3")),
    ]


@pytest.mark.parametrize("text", ["[", '[{"text": "a"}', '[{"text": "a"}]]', "[nonsense]", "[1,]"])
def test_a_list_that_breaks_off_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(DumpMalformedError, match=r"p\.json"):
        list(json_entries(path))


def test_a_folder_stands_for_the_texts_below_it(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    for name in ("b.md", "a.txt", "sub/b.md", ".hidden/c.md", "picture.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"Text of {name}.")
    files, others = files_of([folder])
    assert [name for _, name in files] == ["a.txt", "b.md", "sub/b.md"]
    assert [path.name for path in others] == ["picture.png"]
    twice, _ = files_of([folder, folder / "a.txt"])
    assert len(twice) == 3
    same, _ = files_of([folder / "b.md", folder / "sub" / "b.md"])
    assert len({name for _, name in same}) == 2


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DumpNotFoundError, match="no text"):
        files_of([tmp_path])
    with pytest.raises(DumpNotFoundError, match="does not exist"):
        files_of([tmp_path / "none.txt"])
    with pytest.raises(UsageError, match="standard input"):
        files_of([STDIN])
    pdf, packed = tmp_path / "a.pdf", tmp_path / "a.jsonl.gz"
    pdf.write_bytes(b"%PDF-1.7\n")
    packed.write_bytes(gzip.compress(b'{"text": "a"}\n'))
    for path in (pdf, packed):
        with pytest.raises(DumpMalformedError, match=path.name):
            read(path)


def test_a_long_paragraph_is_asked_about_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_paragraphs, "LONGEST", 30)
    path = tmp_path / "n.txt"
    path.write_text("One two three. Four five six. Seven eight nine.")
    found, *_ = read(path)
    assert [(one.id, len(one.sentences)) for one in found] == [("n.txt#1.1", 2), ("n.txt#1.2", 1)]


@given(st.lists(st.text(min_size=1, max_size=40), max_size=12), st.integers(1, 60))
def test_parts_hold_every_sentence_once_and_in_order(sentences: list[str], most: int) -> None:
    parts = list(in_parts(sentences, most))
    assert [one for part in parts for one in part] == sentences
    assert all(len(part) == 1 or sum(map(len, part)) <= most for part in parts)


@given(st.text())
def test_sentences_lose_nothing_but_white_space(text: str) -> None:
    assert "".join("".join(sentences_of(text)).split()) == "".join(text.split())


def test_sentences_end_where_they_should() -> None:
    assert sentences_of('He said "Go." Then he left. Ends at 3.5 m.') == [
        'He said "Go."',
        "Then he left.",
        "Ends at 3.5 m.",
    ]
    assert sentences_of("她来了。他走了。") == ["她来了。", "他走了。"]
    assert sentences_of("e.g. this, born Jan. 3. Next") == ["e.g. this, born Jan. 3. Next"]
