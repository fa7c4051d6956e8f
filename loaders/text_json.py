"""JSON files of texts: the entries of a list or of JSON lines, and the paragraphs that they hold.

Two kinds of entry are known: a paragraph (``{"text", "title"?, "id"?}``) and a question of
2WikiMultihopQA or HotpotQA, whose ``context`` is a list of ``[title, [sentence…]]``. A list is read
whole, lines one at a time. Questions and answers are read by ``kgqa.questions.twowiki``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from kgqa.errors import DumpMalformedError, DumpNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

_CONTEXT = TypeAdapter(list[tuple[str, list[str]]])
_CHUNK = 1 << 16  # bytes in which a file's first character is looked for
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Fault:
    """A malformed entry: why, and how it begins."""

    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph as a file has it. ``sentences`` is empty if the file does not split it."""

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
    with _opened(path) as file:
        read = file.read(len(_MARK))
        start = read.removeprefix(_MARK).lstrip()
        while read and not start:
            read = file.read(_CHUNK)
            start = read.lstrip()
        is_list = start.startswith(b"[")
        file.seek(0)
        for number, entry in _of_list(file, path) if is_list else _of_lines(file):
            if isinstance(entry, dict | Fault):
                yield number, entry
            else:
                yield number, Fault("no JSON object", json.dumps(entry)[:200])


def passages(entry: dict[str, Any]) -> list[Passage]:
    """Return the paragraphs of an entry. Raises ValueError that says what is wrong with it."""
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
    """Return the paragraphs of a question's ``context``. Raises ValueError."""
    try:
        given = _CONTEXT.validate_python(entry.get("context"))
    except ValidationError as error:
        place = error.errors()[0]["loc"]
        where, of = (f"item {int(place[0]) + 1} of ", "") if place else ("", "a list of ")
        raise ValueError(f'{where}"context" is not {of}[title, sentences]') from None
    found = []
    for title, texts in given:
        sentences = tuple(s for text in texts if (s := " ".join(text.split())))
        if sentences:
            found.append(Passage(" ".join(sentences), title.strip(), "", sentences))
    return found


def _of_lines(file: IO[bytes]) -> Iterator[tuple[int, Any]]:
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


def _of_list(file: IO[bytes], path: Path) -> Iterator[tuple[int, Any]]:
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


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise DumpNotFoundError(f"There is no file {path}.", "Check the path.") from None
    except OSError as error:
        raise DumpNotFoundError(f"{path} cannot be opened: {error.strerror or error}.") from None
