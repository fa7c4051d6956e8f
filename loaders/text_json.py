"""JSON files of texts: the entries of a list or of JSON lines, and the paragraphs that they hold.

Two kinds of entry are known: a paragraph (``{"text", "title"?, "id"?}``) and a question of
2WikiMultihopQA or HotpotQA, whose ``context`` is a list of ``[title, [sentence…]]``. A list may be
larger than memory: its entries are read one at a time. What it does not do: look at questions and
answers (``kgqa.questions.twowiki``).
"""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgqa.errors import DumpMalformedError, DumpNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

_CHUNK = 1 << 20  # bytes read at a time
_BLANK = " \t\r\n"
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Fault:
    """An entry that is none: why, and how it begins."""

    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph as a file has it. ``sentences`` is empty where the file does not split it."""

    text: str
    title: str = ""
    id: str = ""
    sentences: tuple[str, ...] = ()


def is_list(path: Path) -> bool:
    """Return whether a file begins as a JSON list does. Raises DumpNotFoundError."""
    with _opened(path) as file:
        read = file.read(len(_MARK))
        start = read.removeprefix(_MARK).lstrip()
        while read and not start:
            read = file.read(_CHUNK)
            start = read.lstrip()
    return start.startswith(b"[")


def json_entries(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, entry) of a JSON list, or of a file of JSON lines, blank ones left out.

    The number is the entry's place in a list, else its line. An entry that is no JSON object is a
    :class:`Fault`. Raises DumpNotFoundError where the file cannot be opened, DumpMalformedError
    where a list breaks off or is no JSON: what follows cannot be counted.
    """
    for number, entry in _of_list(path) if is_list(path) else _of_lines(path):
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
        raise ValueError('"title" is no text')
    if isinstance(id_, bool) or not (id_ is None or isinstance(id_, str | int)):
        raise ValueError('"id" is neither text nor a whole number')
    return [Passage(text, (title or "").strip(), "" if id_ is None else str(id_).strip())]


def context(entry: dict[str, Any]) -> list[Passage]:
    """Return the paragraphs of a question's ``context``. Raises ValueError."""
    given = entry.get("context")
    if not isinstance(given, list):
        raise ValueError('"context" is no list of [title, sentences]')
    found = []
    for place, one in enumerate(given, 1):
        if not (
            isinstance(one, list)
            and len(one) == 2
            and isinstance(one[0], str)
            and isinstance(one[1], list)
            and all(isinstance(sentence, str) for sentence in one[1])
        ):
            raise ValueError(f'item {place} of "context" is no [title, sentences]')
        sentences = tuple(s for sentence in one[1] if (s := " ".join(sentence.split())))
        if sentences:
            found.append(Passage(" ".join(sentences), one[0].strip(), "", sentences))
    return found


def _of_lines(path: Path) -> Iterator[tuple[int, Any]]:
    with _opened(path) as file:
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


def _of_list(path: Path) -> Iterator[tuple[int, Any]]:
    with _opened(path) as file:
        text = _Text(file, path)
        text.skip("[")
        number = 0
        while text.next() != "]":
            if number:
                text.skip(",")
            number += 1
            yield number, text.value(number)
        text.skip("]")
        if left := text.next():
            raise DumpMalformedError(
                f"{path} goes on after the end of its list (with {left!r}).",
                "One list of entries is one file.",
            )


class _Text:
    """A file's text of which only what is being looked at is in memory."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._ended = False
        self._json = json.JSONDecoder()

    def next(self) -> str:
        """Return the next character that is not blank, without taking it; "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def skip(self, wanted: str) -> None:
        """Take the next character. Raises DumpMalformedError where it is another."""
        if (found := self.next()) != wanted:
            what = f"{found!r} stands" if found else "it ends"
            raise DumpMalformedError(
                f"{self._path} is no JSON list: {what} where {wanted!r} should.",
                "The file is damaged or cut short; fetch it again.",
            )
        self._at += 1

    def value(self, number: int) -> Any:
        """Take the value that comes next: entry ``number`` of the list."""
        self.next()
        while True:
            try:
                found, end = self._json.raw_decode(self._text, self._at)
                # a number may go on in what was not read yet
                if end < len(self._text) or not self._more():
                    self._at = end
                    return found
            except json.JSONDecodeError as error:
                if not self._more():
                    raise DumpMalformedError(
                        f"Entry {number} of {self._path} is no JSON: {error.msg}.",
                        "The file is damaged or cut short; fetch it again.",
                    ) from None
            except RecursionError:
                raise DumpMalformedError(
                    f"Entry {number} of {self._path} is nested too deeply.",
                    "Give a list of entries.",
                ) from None

    def _more(self) -> bool:
        """Read on; drop what was taken. Return whether there was more."""
        if self._ended:
            return False
        # as much as there is already, so that a long value is not looked at again and again
        chunk = self._file.read(max(_CHUNK, len(self._text) - self._at))
        self._ended = not chunk
        try:
            new = self._decoder.decode(chunk, final=self._ended)
        except UnicodeDecodeError:
            raise DumpMalformedError(
                f"{self._path} is not UTF-8.", "Give a JSON file in UTF-8."
            ) from None
        self._text = self._text[self._at :] + new
        self._at = 0
        return not self._ended


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise DumpNotFoundError(f"There is no file {path}.", "Check the path.") from None
    except OSError as error:
        raise DumpNotFoundError(f"{path} cannot be opened: {error.strerror or error}.") from None
