"""Files of text → paragraphs, each with an id that says where it stands.

Plain text and Markdown: a paragraph ends at a blank line; a heading is the title of those that
follow, and code blocks are left out. JSON, a list (read whole) or lines: paragraphs
(``{"text", "title"?, "id"?}``), and questions of 2WikiMultihopQA or HotpotQA, whose ``context`` is
a list of ``[title, [sentence…]]``. A folder stands for the files of these kinds in it and below. A
paragraph too long for one call becomes parts of whole sentences. PDF and HTML are not read.

Sentences end by punctuation, but for a few known abbreviations. No language is known: a sentence
cut at the wrong place is still the text's own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from kgqa.errors import DumpMalformedError, DumpNotFoundError, UsageError
from kgqa.graph.names import is_storable
from kgqa.loaders.base import Rejects, Report, lose
from kgqa.loaders.blocks import STDIN, ending_of, open_file, read_blocks
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CONTEXT = TypeAdapter(list[tuple[str, list[str]]])
_CHUNK = 1 << 16  # bytes in which a file's first character is looked for
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Fault:
    """A malformed entry: the reason, and its first characters."""

    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph of a file. ``sentences`` is empty if the file does not split it."""

    text: str
    title: str = ""
    id: str = ""
    sentences: tuple[str, ...] = ()


def json_entries(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, entry) of a JSON list, or of a file of JSON lines, blank ones left out.

    The number is the entry's place in a list, else its line. An entry that is not a JSON object is
    a :class:`Fault`. Raises DumpNotFoundError if the file cannot be opened, DumpMalformedError if a
    list breaks off or is not JSON: what follows cannot be counted.
    """
    with open_file(path) as file:
        read = file.read(len(_MARK))
        start = read.removeprefix(_MARK).lstrip()
        while read and not start:
            read = file.read(_CHUNK)
            start = read.lstrip()
        is_list = start.startswith(b"[")
        file.seek(0)
        for number, entry in _entries_of_list(file, path) if is_list else _entries_of_lines(file):
            if isinstance(entry, dict | Fault):
                yield number, entry
            else:
                yield number, Fault("no JSON object", json.dumps(entry)[:200])


def passages(entry: dict[str, Any]) -> list[Passage]:
    """Return the paragraphs of a JSON entry. Raises ValueError with the entry's fault."""
    if "context" in entry:
        return context(entry)
    text = entry.get("text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError('no text in "text", and no "context"')
    title, id_ = entry.get("title"), entry.get("id")
    if title is not None and not isinstance(title, str):
        raise ValueError('"title" is not text')
    if isinstance(id_, bool) or not (id_ is None or isinstance(id_, str | int)):
        raise ValueError('"id" is neither text nor a whole number')
    return [Passage(text, (title or "").strip(), "" if id_ is None else str(id_).strip())]


def context(entry: dict[str, Any]) -> list[Passage]:
    """Return the paragraphs of a question's ``context``. Raises ValueError with its fault."""
    try:
        given = _CONTEXT.validate_python(entry.get("context"))
    except ValidationError as error:
        place = error.errors()[0]["loc"]
        where, of = (f"item {int(place[0]) + 1} of ", "") if place else ("", "a list of ")
        raise ValueError(f'{where}"context" is not {of}[title, sentences]') from None
    passages_of = []
    for title, texts in given:
        sentences = tuple(s for text in texts if (s := " ".join(text.split())))
        if sentences:
            passages_of.append(Passage(" ".join(sentences), title.strip(), "", sentences))
    return passages_of


def _entries_of_lines(file: IO[bytes]) -> Iterator[tuple[int, Any]]:
    """Yield (line number, entry) of a file of JSON lines; a malformed line is a Fault."""
    for number, raw in enumerate(file, 1):
        line = raw.removeprefix(_MARK) if number == 1 else raw
        if not line.strip():
            continue
        shown = line[:200].decode(errors="backslashreplace")
        try:
            yield number, json.loads(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            yield number, Fault(f"not UTF-8 at byte {error.start + 1}", shown)
        except json.JSONDecodeError as error:
            yield number, Fault(f"no JSON: {error.msg} at column {error.colno}", shown)
        except RecursionError:
            yield number, Fault("no JSON: nested too deeply", shown)


def _entries_of_list(file: IO[bytes], path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (position, entry) of a file that is one JSON list. Raises DumpMalformedError."""
    damaged = "The file is damaged or cut short; fetch it again."
    try:
        entries = json.loads(file.read().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise DumpMalformedError(f"{path} is not UTF-8.", "Give a JSON file in UTF-8.") from None
    except json.JSONDecodeError as error:
        where = f"{error.msg}, line {error.lineno}, column {error.colno}"
        raise DumpMalformedError(f"{path} is not a JSON list: {where}.", damaged) from None
    except RecursionError:
        raise DumpMalformedError(f"{path} is nested too deeply.", damaged) from None
    yield from enumerate(entries, 1)


LONGEST = 4_000  # characters of a paragraph that is asked about in one call
CODE = "code block"
REPEATED = "paragraph that came before"
SURROGATE = "holds half of a character (a lone surrogate)"
_TEXTS = (".txt", ".text", ".md", ".markdown", ".rst")
_JSONS = (".jsonl", ".ndjson", ".json")
_PDF = b"%PDF-"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*\s*")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*(?:\s+\"[^\"]*\")?\)")
_EMPHASIS = re.compile(r"(\*\*|__|\*|`)(?=\S)(.+?)(?<=\S)\1")
_LEAD = re.compile(r"^\s*(?:>\s?|[-*+]\s+)+", re.MULTILINE)

# what ends a sentence, with the quotes and brackets that close after it
_END = re.compile(r"(?:[.!?…]+[\"'”’»)\]]*\s+|[。！？]+[」』”’）]*\s*)")
_BEFORE = re.compile(r"(\S+)$")
_LOWER = re.compile(r"[a-zß-öø-ÿ]")
_INITIALS = re.compile(r"(?:[A-Za-z]\.)+|\d{1,3}\.")
# fmt: off
_ABBREVIATIONS = frozenset((
    "mr.", "mrs.", "ms.", "dr.", "prof.", "st.", "sr.", "jr.", "rev.", "hon.", "gen.", "col.",
    "capt.", "lt.", "sgt.", "gov.", "sen.", "vs.", "etc.", "ca.", "approx.", "fig.", "vol.",
    "pp.", "ed.", "eds.", "inc.", "ltd.", "co.", "corp.", "dept.", "univ.", "jan.", "feb.",
    "mar.", "apr.", "jun.", "jul.", "aug.", "sep.", "sept.", "oct.", "nov.", "dec.",
))
# fmt: on


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph to extract triplets from, with at least one sentence."""

    id: str
    title: str
    sentences: tuple[str, ...]


def files_of(sources: Sequence[Path]) -> tuple[list[tuple[Path, str]], list[Path]]:
    """Return (file, name for its paragraphs' ids) pairs, and the files left out.

    Names are without folders where that keeps them distinct. Files that are named explicitly are
    read whatever their ending; in a folder those of other endings are left out, and hidden ones are
    skipped. Raises DumpNotFoundError, and UsageError for standard input.
    """
    files: list[tuple[Path, str]] = []
    others: list[Path] = []
    for source in sources:
        if source == STDIN:
            raise UsageError("Text is not read from standard input.", "Name the files.")
        if not source.exists():
            raise DumpNotFoundError(f"{source} does not exist.", "Check the path.")
        if not source.is_dir():
            files.append((source, source.name))
            continue
        below = [(path, path.relative_to(source)) for path in sorted(source.rglob("*"))]
        below = [
            (path, name)
            for path, name in below
            if path.is_file() and not any(part[0] == "." for part in name.parts)
        ]
        mine = [(path, name.as_posix()) for path, name in below if _is_json(path) or _is_text(path)]
        if not mine:
            raise DumpNotFoundError(
                f"The folder {source} holds no text.",
                f"Files in it end in one of {', '.join((*_TEXTS, *_JSONS))}.",
            )
        others += [path for path, _ in below if not (_is_json(path) or _is_text(path))]
        files += mine
    distinct: dict[Path, tuple[Path, str]] = {}
    for path, name in files:
        distinct.setdefault(path.resolve(), (path, name))
    kept = list(distinct.values())
    known = Counter(name for _, name in kept)
    return [(path, name if known[name] == 1 else path.as_posix()) for path, name in kept], others


def paragraphs_of(
    files: Sequence[tuple[Path, str]], dropped: Counter[str], rejects: Rejects
) -> Iterator[Paragraph]:
    """Yield the paragraphs of files; a repeated text under the same title only once.

    Malformed entries of JSON files go to ``rejects``; what is left out is counted in ``dropped``.
    Raises DumpNotFoundError, DumpMalformedError.
    """
    seen: set[bytes] = set()
    ids: set[str] = set()
    for path, name in files:
        if _is_json(path):
            passages_of = _json_paragraphs(path, name, rejects)
        else:
            passages_of = _text_paragraphs(path, name, dropped, rejects)
        for place, passage in passages_of:
            given = passage.sentences or sentences_of(_CONTROL.sub(" ", passage.text))
            sentences = tuple(s for sentence in given if (s := _one_line(sentence)))
            title, id_ = _one_line(passage.title), _one_line(passage.id) or f"{name}#{place}"
            if not sentences:
                continue
            if not is_storable("".join((title, id_, *sentences))):
                rejects.add(name, int(place.partition(".")[0]), SURROGATE, passage.text)
                continue
            digest = hashlib.sha256("\n".join((title, *sentences)).encode()).digest()
            if digest in seen:
                lose(dropped, REPEATED, 1, id_)
                continue
            seen.add(digest)
            if id_ in ids:
                id_ = f"{id_} ({name}#{place})"
            ids.add(id_)
            parts = list(in_parts(sentences, LONGEST))
            for number, part in enumerate(parts, 1):
                yield Paragraph(f"{id_}.{number}" if len(parts) > 1 else id_, title, part)


def count_paragraphs(files: Sequence[tuple[Path, str]]) -> int:
    """Count the paragraphs that :func:`paragraphs_of` yields, without reporting anything."""
    with closing(Rejects(Path(os.devnull), Report())) as rejects:
        return sum(1 for _ in paragraphs_of(files, Counter(), rejects))


def _is_json(path: Path) -> bool:
    """Return whether a file's ending is one of JSON files."""
    return path.suffix.lower() in _JSONS


def _is_text(path: Path) -> bool:
    """Return whether a file's ending is one of text files."""
    return ending_of(path) in _TEXTS


def _json_paragraphs(path: Path, name: str, rejects: Rejects) -> Iterator[tuple[str, Passage]]:
    """Yield (number, paragraph) of a JSON file's entries; malformed entries are rejected."""
    for number, entry in json_entries(path):
        if isinstance(entry, Fault):
            rejects.add(name, number, entry.reason, entry.text)
            continue
        try:
            entry_passages = passages(entry)
        except ValueError as error:
            rejects.add(name, number, str(error), str(entry))
            continue
        for place, passage in enumerate(entry_passages, 1):
            yield f"{number}.{place}" if len(entry_passages) > 1 else str(number), passage


def _text_paragraphs(
    path: Path, name: str, dropped: Counter[str], rejects: Rejects
) -> Iterator[tuple[str, Passage]]:
    """Yield (number, paragraph) of a text or Markdown file, titled by the heading above it."""
    title, number = "", 0
    markdown = ending_of(path) in (".md", ".markdown")
    for block in _blocks(path, name, markdown, dropped, rejects):
        heading = _HEADING.fullmatch(block) if markdown else None
        if heading:
            title = _without_markdown(heading[1])
            continue
        number += 1
        yield str(number), Passage(_without_markdown(block) if markdown else block, title)


def _blocks(
    path: Path, name: str, markdown: bool, dropped: Counter[str], rejects: Rejects
) -> Iterator[str]:
    """Yield the texts between blank lines; Markdown headings separately, code blocks dropped.

    Lines that are not UTF-8 are rejected.
    """
    held: list[str] = []
    fence = ""
    for number, raw in enumerate(_lines(path, rejects), 1):
        try:
            line = raw.decode().rstrip()
        except UnicodeDecodeError as error:
            shown = raw.decode(errors="backslashreplace")
            rejects.add(name, number, f"not UTF-8 ({error.reason})", shown)
            continue
        opens = _FENCE.match(line) if markdown else None
        if fence:
            if opens and opens[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
            continue
        heading = markdown and _HEADING.fullmatch(line)
        if held and (not line.strip() or opens or heading):
            yield "\n".join(held)
            held = []
        if opens:
            fence = opens[1]
            lose(dropped, CODE, 1, line)
        elif heading:
            yield line
        elif line.strip():
            held.append(line)
    if held:
        yield "\n".join(held)


def _lines(path: Path, rejects: Rejects) -> Iterator[bytes]:
    """Yield the lines of a text file. Raises DumpMalformedError if it is not text."""
    if ending_of(path) in _JSONS:
        raise DumpMalformedError(f"{path} is a compressed JSON file.", "Unpack it first.")
    for block in read_blocks([path], Report(), rejects, Silent()):
        data = bytes(block.data)
        if b"\0" in data or (block.first == 1 and data.startswith(_PDF)):
            hint = "Give plain text, Markdown or JSON lines, in UTF-8."
            raise DumpMalformedError(f"{path} is not text.", hint)
        yield from data.split(b"\n")[:-1]


def _one_line(text: str) -> str:
    """Replace control characters and runs of white space by single spaces."""
    return " ".join(_CONTROL.sub(" ", text).split())


def _without_markdown(text: str) -> str:
    """Remove the markup of Markdown.

    >>> _without_markdown("> The **Grey Heron** is a [ship](https://x.org).")
    'The Grey Heron is a ship.'
    """
    text = _LEAD.sub("", text)
    text = _LINK.sub(r"\1", text)
    return _EMPHASIS.sub(r"\2", text)


def sentences_of(text: str) -> list[str]:
    """Split a text into sentences, with white space collapsed.

    >>> sentences_of("Dr. Moll met J. R. Ek in 1901. They sailed!  Where to?")
    ['Dr. Moll met J. R. Ek in 1901.', 'They sailed!', 'Where to?']
    """
    text = " ".join(text.split())
    sentences, start = [], 0
    for match in _END.finditer(text):
        end = match.end()
        if end >= len(text) or _continues(text[start : match.end()].rstrip(), text[end]):
            continue
        sentences.append(text[start:end].strip())
        start = end
    rest = text[start:].strip()
    return [*sentences, rest] if rest else sentences


def in_parts(sentences: Sequence[str], most: int) -> Iterator[tuple[str, ...]]:
    """Group sentences into parts of at most ``most`` characters; a longer sentence is one part."""
    part: list[str] = []
    size = 0
    for sentence in sentences:
        if part and size + len(sentence) > most:
            yield tuple(part)
            part, size = [], 0
        part.append(sentence)
        size += len(sentence) + 1
    if part:
        yield tuple(part)


def _continues(before: str, after: str) -> bool:
    """Return whether a full stop does not end a sentence: an abbreviation, an initial.

    ``before`` and ``after``: the text around it.
    """
    if not before.endswith("."):
        return False
    last = _BEFORE.search(before)
    word = last[1].lstrip("(\"'“‘«[") if last else ""
    if word.casefold() in _ABBREVIATIONS or _LOWER.match(after):
        return True
    return _INITIALS.fullmatch(word) is not None
