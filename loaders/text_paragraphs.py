"""Files of text → paragraphs, each with an id that says where it stands.

Plain text and Markdown: a paragraph ends at a blank line; a heading is the title of those that
follow, and code blocks are left out. JSON lines of ``{"text", "title"?, "id"?}`` and question files
with paragraphs (``text_json``). A folder stands for the files of these kinds in it and below. A
paragraph too long for one call becomes parts of whole sentences. What it does not do: PDF, HTML.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kgqa.errors import DumpMalformedError, DumpNotFoundError, UsageError
from kgqa.graph.names import is_storable
from kgqa.loaders.base import Rejects, Report
from kgqa.loaders.blocks import STDIN, read_blocks
from kgqa.loaders.text_json import Fault, Passage, json_entries, passages
from kgqa.loaders.text_sentences import in_parts, sentences_of
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST = 4_000  # characters of a paragraph that is asked about in one call
CODE = "code block"
REPEATED = "paragraph that came before"
SURROGATE = "holds half of a character (a lone surrogate)"
_TEXTS = (".txt", ".text", ".md", ".markdown", ".rst")
_JSONS = (".jsonl", ".ndjson", ".json")
_COMPRESSED = (".gz", ".bz2", ".zst")
_PDF = b"%PDF-"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*\s*")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*(?:\s+\"[^\"]*\")?\)")
_EMPHASIS = re.compile(r"(\*\*|__|\*|`)(?=\S)(.+?)(?<=\S)\1")
_LEAD = re.compile(r"^\s*(?:>\s?|[-*+]\s+)+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph to draw triplets from; ``sentences`` has one entry at least."""

    id: str
    title: str
    sentences: tuple[str, ...]


def files_of(sources: Sequence[Path]) -> tuple[list[tuple[Path, str]], list[Path]]:
    """Return the files with the name that paragraphs are called after, and those left out.

    Names are without folders as far as that tells them apart. Files that are named are read
    whatever their ending; in a folder those of other endings are left out, and hidden ones.
    Raises DumpNotFoundError, and UsageError for standard input.
    """
    found: list[tuple[Path, str]] = []
    others: list[Path] = []
    for source in sources:
        if source == STDIN:
            raise UsageError("Text is not read from standard input.", "Name the files.")
        if not source.exists():
            raise DumpNotFoundError(f"There is no {source}.", "Check the path.")
        if not source.is_dir():
            found.append((source, source.name))
            continue
        below = [one for one in sorted(source.rglob("*")) if one.is_file()]
        below = [
            one for one in below if not any(p[0] == "." for p in one.relative_to(source).parts)
        ]
        mine = [one for one in below if _kind(one) is not None]
        if not mine:
            raise DumpNotFoundError(
                f"The folder {source} holds no text.",
                f"Files in it end in one of {', '.join((*_TEXTS, *_JSONS))}.",
            )
        others += [one for one in below if one not in set(mine)]
        found += [(one, one.relative_to(source).as_posix()) for one in mine]
    distinct = {path.resolve(): (path, name) for path, name in reversed(found)}
    kept = list(reversed(distinct.values()))
    names = [name for _, name in kept]
    return [
        (path, name if names.count(name) == 1 else path.as_posix()) for path, name in kept
    ], others


def paragraphs_of(
    files: Sequence[tuple[Path, str]], dropped: Counter[str], rejects: Rejects
) -> Iterator[Paragraph]:
    """Yield the paragraphs of files, each text under its title once.

    Entries of JSON files that hold none go to ``rejects``; what is left out is counted in
    ``dropped``. Raises DumpNotFoundError, DumpMalformedError.
    """
    seen: set[bytes] = set()
    ids: set[str] = set()
    for path, name in files:
        read = _json if _kind(path) == "json" else _text
        for place, passage in read(path, name, dropped, rejects):
            given = passage.sentences or sentences_of(_CONTROL.sub(" ", passage.text))
            sentences = tuple(s for one in given if (s := _line(one)))
            title, id_ = _line(passage.title), _line(passage.id) or f"{name}#{place}"
            if not sentences:
                continue
            if not is_storable("".join((title, id_, *sentences))):
                rejects.add(name, int(place.partition(".")[0]), SURROGATE, passage.text)
                continue
            told = hashlib.sha256("\n".join((title, *sentences)).encode()).digest()
            if told in seen:
                dropped[REPEATED] += 1
                continue
            seen.add(told)
            if id_ in ids:
                id_ = f"{id_} ({name}#{place})"
            ids.add(id_)
            parts = list(in_parts(sentences, LONGEST))
            for number, part in enumerate(parts, 1):
                yield Paragraph(f"{id_}.{number}" if len(parts) > 1 else id_, title, part)


def count_paragraphs(files: Sequence[tuple[Path, str]]) -> int:
    """Return how many paragraphs :func:`paragraphs_of` gives; nothing is counted or rejected."""
    return sum(1 for _ in paragraphs_of(files, Counter(), _Unseen(Path(), Report())))


class _Unseen(Rejects):
    """Keeps no reject."""

    def add(self, source: str, line: int, reason: str, text: str) -> None:
        pass


def _kind(path: Path) -> str | None:
    """Return what a file's ending says: text, json, or None for something else."""
    if path.suffix.lower() in _JSONS:
        return "json"
    return "text" if _ending(path) in _TEXTS else None


def _ending(path: Path) -> str:
    """Return the ending of a file's name, that of its compression left out."""
    name = path.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return Path(name).suffix


def _json(
    path: Path, name: str, dropped: Counter[str], rejects: Rejects
) -> Iterator[tuple[str, Passage]]:
    for number, entry in json_entries(path):
        try:
            found = [] if isinstance(entry, Fault) else passages(entry)
            reason, shown = (entry.reason, entry.text) if isinstance(entry, Fault) else ("", "")
        except ValueError as error:
            found, reason, shown = [], str(error), str(entry)
        if reason:
            rejects.add(name, number, reason, shown)
        for place, passage in enumerate(found, 1):
            yield f"{number}.{place}" if len(found) > 1 else str(number), passage


def _text(
    path: Path, name: str, dropped: Counter[str], rejects: Rejects
) -> Iterator[tuple[str, Passage]]:
    title, number = "", 0
    marked = _is_markdown(path)
    for block in _blocks(path, name, marked, dropped, rejects):
        heading = _HEADING.fullmatch(block) if marked else None
        if heading:
            title = _plain(heading[1])
            continue
        number += 1
        yield str(number), Passage(_plain(block) if marked else block, title)


def _blocks(
    path: Path, name: str, marked: bool, dropped: Counter[str], rejects: Rejects
) -> Iterator[str]:
    """Yield what stands between blank lines; in Markdown headings alone, code blocks not."""
    held: list[str] = []
    fence = ""
    for number, raw in enumerate(_lines(path, rejects), 1):
        try:
            line = raw.decode().rstrip()
        except UnicodeDecodeError as error:
            shown = raw.decode(errors="backslashreplace")
            rejects.add(name, number, f"not UTF-8 ({error.reason})", shown)
            continue
        opens = _FENCE.match(line) if marked else None
        if fence:
            if opens and opens[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
            continue
        heading = marked and _HEADING.fullmatch(line)
        if held and (not line.strip() or opens or heading):
            yield "\n".join(held)
            held = []
        if opens:
            fence = opens[1]
            dropped[CODE] += 1
        elif heading:
            yield line
        elif line.strip():
            held.append(line)
    if held:
        yield "\n".join(held)


def _lines(path: Path, rejects: Rejects) -> Iterator[bytes]:
    """Yield the lines of a file, which may be compressed."""
    hint = "Give plain text, Markdown or JSON lines, in UTF-8."
    if _ending(path) in _JSONS:
        raise DumpMalformedError(f"{path} is a compressed JSON file.", "Unpack it first.")
    for block in read_blocks([path], Report(), rejects, Silent()):
        data = bytes(block.data)
        if b"\0" in data or (block.first == 1 and data.startswith(_PDF)):
            raise DumpMalformedError(f"{path} is no text.", hint)
        yield from data.split(b"\n")[:-1]


def _line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(_CONTROL.sub(" ", text).split())


def _is_markdown(path: Path) -> bool:
    return _ending(path) in (".md", ".markdown")


def _plain(text: str) -> str:
    """Return Markdown without its marks.

    >>> _plain("> The **Grey Heron** is a [ship](https://x.org).")
    'The Grey Heron is a ship.'
    """
    text = _LEAD.sub("", text)
    text = _LINK.sub(r"\1", text)
    return _EMPHASIS.sub(r"\2", text)
