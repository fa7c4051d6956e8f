"""Errors as HTTP gives them: a status, and one JSON form for the API and for OpenAI's clients."""

from __future__ import annotations

import logging
import re
from typing import Any

from kgqa.errors import (
    HALF_A_PAIR,
    NO_MEMORY,
    EmptyLanguageError,
    EntityNotFoundError,
    GeneralModelError,
    KGNotFoundError,
    KgqaError,
    LinkingError,
    ModelError,
    PlanError,
    StoreUnavailableError,
    TimeLimitError,
    UsageError,
    is_out_of_memory,
    without_secrets,
)

_LOG = logging.getLogger("kgqa.server")


class BusyError(KgqaError):
    """The queue is full, for everybody or for one client.

    ``seconds``: when to try again.
    """

    def __init__(self, count: int, seconds: int, client: str = "") -> None:
        super().__init__(
            f"{count:,} questions came from {client}, which is as many as it may ask at a time."
            if client
            else f"{count:,} questions are waiting, which is as many as this server takes.",
            f"Try again in {seconds} s.",
        )
        self.seconds = seconds


class StoppingError(KgqaError):
    """The server is shutting down."""

    def __init__(self) -> None:
        super().__init__("The server is being stopped.", "Ask again when it is back.")


class RefusedError(KgqaError):
    """A request that the server refuses with an HTTP status."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.status = status


_STATUSES: tuple[tuple[type[KgqaError], int], ...] = (  # the first that fits
    (BusyError, 429),
    (StoppingError, 503),
    (UsageError, 400),
    (PlanError, 400),
    (KGNotFoundError, 404),
    (EntityNotFoundError, 404),
    (LinkingError, 422),
    (EmptyLanguageError, 422),
    (TimeLimitError, 504),
    (StoreUnavailableError, 503),
    (GeneralModelError, 502),
    (ModelError, 503),
)


_ROUTES = {
    "link": "GET /api/link?question=…",
    "paths": "GET /api/paths?entity=…",
    "ask": 'POST /api/ask {"question": "…"}',
}
_COMMAND = re.compile(rf'`?kgqa ({"|".join(_ROUTES)})\b(?: "[^"]*"| [A-Z]+\b)?`?')
_ANY_COMMAND = re.compile(r"\bkgqa [a-z]|(?<!\S)--[a-z]")
_LONGEST = 500  # characters of a message


def status_of(error: KgqaError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, RefusedError):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def error_json(error: KgqaError) -> dict[str, Any]:
    """Return an error as every endpoint gives it, without credentials."""
    return {
        "error": {
            "message": shortened(without_secrets(error.message)),
            "hint": advice(without_secrets(error.hint)),
            "type": type(error).__name__,
            "code": status_of(error),
        }
    }


def advice(hint: str) -> str:
    """Reword an error's hint for the HTTP API instead of the command line.

    A hint with another command is addressed to whoever runs the server.
    """
    hint = _COMMAND.sub(lambda match: _ROUTES[match[1]], hint)
    return f"For whoever runs the server: {hint}" if _ANY_COMMAND.search(hint) else shortened(hint)


def shortened(text: str) -> str:
    """Shorten an error's text so that it repeats only the beginning of what was sent."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def unexpected(error: BaseException, what: str = "") -> KgqaError:
    """Log an internal fault; return an error for the client with its kind, without details.

    ``what``: a sentence on what failed, "" if it is not to be logged. A text that cannot be encoded
    is the client's own fault, wherever it is found; memory that ran out is nobody's, and the log
    needs no traceback of it.
    """
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return UsageError(*HALF_A_PAIR)
    if is_out_of_memory(error):
        if what:
            _LOG.error("%s %s", what, " ".join(NO_MEMORY))
        return RefusedError(503, *NO_MEMORY)
    if what:
        _LOG.error(what, exc_info=error)
    return KgqaError(
        f"Something went wrong that should not ({type(error).__name__}).",
        "The server's log says where; please report it.",
    )
