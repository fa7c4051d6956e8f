"""What formats share: lines, and pydantic models of rows with errors in sentences."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationError,
)

from kgqa.errors import DataError
from kgqa.files import check_plain, read_list
from kgqa.questions.base import Entry, Question, QuestionFormat, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


_MOST_BYTES = 64 << 20  # of a line
BOM = b"\xef\xbb\xbf"
_REASONS = {
    "missing": "is missing",
    "string_too_short": "is empty",
    "string_pattern_mismatch": "is empty",
}


def _id_text(value: object) -> str:
    """Return an id as text. Raises ValueError if it is neither text nor an integer."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("is neither text nor a whole number")
    return str(value)


def _as_list(value: object) -> object:
    """Wrap a single text in a list."""
    return [value] if isinstance(value, str) else value


def _without_empty(value: object) -> object:
    """Remove empty items from a list."""
    return [item for item in value if item] if isinstance(value, list) else value or []


def unique(values: list[str]) -> list[str]:
    """Remove repeated values, keeping the order."""
    return list(dict.fromkeys(values))


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
OrNone = BeforeValidator(lambda value: value or None)  # whatever is empty is None
OptionalText = Annotated[Text | None, OrNone]
Id = Annotated[str, BeforeValidator(_id_text)]
Kind = Annotated[str, BeforeValidator(lambda value: value if isinstance(value, str) else "")]
TextList = Annotated[list[Text], BeforeValidator(_as_list)]  # one text is a list of one
Texts = Annotated[TextList, AfterValidator(unique)]
Names = Annotated[  # some of them may be empty
    list[Annotated[str, StringConstraints(strip_whitespace=True)]], BeforeValidator(_as_list)
]
Chains = Annotated[list[TextList], BeforeValidator(_without_empty)]
_Part = Annotated[str, StringConstraints(pattern=r"\S")]
Triples: TypeAlias = list[tuple[_Part, _Part, _Part]]


class Row(BaseModel):
    """One entry of a file; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    def to_question(self) -> Question:
        """Convert the row to a question. Raises ValueError with the row's fault."""
        raise NotImplementedError


class JsonRows(QuestionFormat):
    """A format of one JSON object a line, parsed by the model ``row``."""

    row: ClassVar[type[Row]]

    def read(self, path: Path) -> Iterator[Entry]:
        """Yield the entry of every line that is not blank."""
        for number, _, line in raw_lines(path):
            yield number, question_of(self.row, line)


def question_of(row: type[Row], entry: object) -> Question | str:
    """Parse an entry (JSON bytes, or an object) as a question, or return its fault in words."""
    try:
        if isinstance(entry, bytes):
            return row.model_validate_json(decoded(entry)).to_question()
        return row.model_validate(entry).to_question()
    except ValueError as error:
        return reason_of(error)


def questions_of_lines(path: Path, parse: Callable[[str, int], Question]) -> Iterator[Entry]:
    """Read a file of one question a line; ``parse`` raises ValueError with a line's fault."""
    for number, _, line in raw_lines(path):
        try:
            yield number, parse(decoded(line), number)
        except ValueError as error:
            yield number, str(error)


def raw_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number from 1, byte offset, line) of non-blank lines. Raises DataError."""
    try:
        check_plain(path)
        with path.open("rb") as file:
            offset = 0
            for number, line in enumerate(iter(partial(file.readline, _MOST_BYTES), b""), 1):
                if len(line) == _MOST_BYTES:
                    raise unreadable(path, f"line {number} has more than {_MOST_BYTES >> 20} MB")
                bare = line.removeprefix(BOM) if number == 1 else line
                if bare.strip():
                    yield number, offset, bare
                offset += len(line)
    except OSError as error:
        raise unreadable(path, error) from None


def file_lines(path: Path, what: str) -> list[str]:
    """Return the lines of a UTF-8 text file. Raises DataError if it cannot be read.

    A line ends where an editor ends it: other separators (U+2028, form feeds, …) are text, since
    names and JSON may hold them. A byte order mark is left out. ``what``: the file, for the error.
    """
    try:
        text = read_list(path)
    except OSError as error:
        raise DataError(
            f"The {what} {path} cannot be read: {error.strerror or error}.", "Check the path."
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"The {what} {path} is not UTF-8 text: {error.reason} at byte {error.start:,}.",
            "Give a text file in UTF-8.",
        ) from None
    return text.removesuffix("\n").split("\n") if text else []


def decoded(line: bytes) -> str:
    """Decode a line without its line end. Raises ValueError if it is not UTF-8."""
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}") from None


def reason_of(error: ValueError) -> str:
    """Return the first validation fault of a row in words.

    >>> try:
    ...     Row.model_validate_json("[]")
    ... except ValueError as error:
    ...     reason_of(error)
    'not a JSON object'
    """
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    context: dict[str, Any] = first.get("ctx") or {}
    if first["type"] == "json_invalid":
        return f"not JSON: {context['error']}"
    if not first["loc"]:
        return "not a JSON object" if first["type"] == "model_type" else first["msg"]
    place = " of ".join(
        f"item {part + 1}" if isinstance(part, int) else f'"{part}"'
        for part in reversed(first["loc"])
    )
    message = first["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return f"{place} {_REASONS.get(first['type'], message)}"
