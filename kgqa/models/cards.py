"""Reading the card in a model's folder: a JSON file whose fields a pydantic dataclass checks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from kgqa.errors import AdapterMismatchError, ModelError, ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

CardT = TypeVar("CardT")

# Strict: True is not a number of hops. Infinity is written as text, which JSON has no number for.
CONFIG = ConfigDict(extra="forbid", strict=True, ser_json_inf_nan="strings")
_SHOWN = 3  # faults of a card that one message names


def read_json_card(
    kind: type[CardT],
    file: Path,
    what: str,
    *,
    version: int,
    older: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]],
    missing: str,
    again: str,
) -> CardT:
    """Return the card in ``file``, which messages call the ``what`` card.

    ``version`` is the ``format_version`` that is read; ``older`` makes of a card of an earlier one
    the next. ``missing`` is the hint if there is no card, ``again`` if it cannot be used.

    Raises ModelNotFoundError if the file does not exist, ModelError if it cannot be read or a field
    is unknown, missing or unusable, AdapterMismatchError for another version (checked first, since
    another version may have other fields).
    """
    try:
        content = json.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        fault = f"has no {file.name}" if file.parent.is_dir() else "is not there"
        raise ModelNotFoundError(f"The {what} folder {file.parent} {fault}.", missing) from None
    except json.JSONDecodeError as error:
        raise ModelError(
            f"The {what} card {file} is not JSON: {error.msg}, line {error.lineno}.", again
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"The {what} card {file} cannot be read: {error}.", again) from None
    if not isinstance(content, dict):
        raise ModelError(f"The {what} card {file} is not a JSON object.", again)
    while type(content.get("format_version")) is int and content["format_version"] in older:
        before = content["format_version"]
        content = {**older[before](content), "format_version": before + 1}
    found = content.get("format_version")
    if found is None:
        raise ModelError(f"The {what} card {file} does not say its format_version.", again)
    if type(found) is not int or found != version:
        raise AdapterMismatchError(
            f"The {what} card {file} has format version {found}; this kgqa reads versions up to "
            f"{version}.",
            f"Use the kgqa version that wrote it. {again}",
        )
    try:
        # as JSON text, so that lists of strings become tuples in spite of strict types
        return TypeAdapter(kind).validate_json(json.dumps(content))
    except ValidationError as error:
        faults = "; ".join(_fault(one) for one in error.errors()[:_SHOWN])
        raise ModelError(f"The {what} card {file} is not usable: {faults}.", again) from None


def card_content(card: Any) -> dict[str, Any]:
    """Return the fields of a card as they stand in its JSON file."""
    content: dict[str, Any] = json.loads(TypeAdapter(type(card)).dump_json(card))
    return content


def _fault(error: Any) -> str:
    """Return what is wrong with a field, by its name."""
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "unexpected_keyword_argument":
        message = "it is not known"
    elif error["type"] == "missing":
        message = "it is missing"
    name = ".".join(map(str, error["loc"]))
    return f"field {name}: {message}" if name else message
