"""All errors that kgqa raises on purpose, as one tree.

    KgqaError
    ├── UsageError                     an invalid option or combination of options
    ├── GraphError
    │   ├── StoreUnavailableError      no server, wrong password, no such database (ConnectionError)
    │   ├── KGNotFoundError            nothing is ingested under that name (LookupError)
    │   └── EntityNotFoundError        no such id or name (LookupError)
    ├── IngestError
    │   ├── DumpNotFoundError          (FileNotFoundError)
    │   └── DumpMalformedError         wrong format, or truncated (ValueError)
    ├── IndexFault
    │   ├── IndexMissingError          no trie index for this KG
    │   ├── IndexStaleError            made for another KG version, tokenizer or path format
    │   └── ShardDamagedError          a checksum does not match (OSError)
    ├── ConstraintError
    │   ├── EmptyLanguageError         the topic entities have no path
    │   └── MarkerMissingError         the tokenizer lacks a marker of the path format
    ├── LinkingError                   an empty question, or nothing in it is in the KG
    ├── ModelError
    │   ├── ModelNotFoundError         neither on disk nor available (FileNotFoundError)
    │   ├── AdapterMismatchError       an adapter for another model or path format
    │   ├── PackagesMissingError       packages of the extra kgqa[llm] (ImportError)
    │   └── GeneralModelError          the OpenAI-compatible server failed
    ├── WorkerError                    a worker process or a cluster is missing, or ended
    ├── TimeLimitError                 a question exceeded its time limit (TimeoutError)
    ├── PlanError                      a plan that cannot be read, or does not fit (ValueError)
    └── DataError                      a question file that cannot be read (ValueError)

A message is a sentence that says what was wrong and where; ``hint`` says what to do next. Neither
ever contains a secret: code that builds one passes URLs through :func:`without_secrets`.
"""

from __future__ import annotations

import errno
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator


class KgqaError(Exception):
    """Base of all errors that a user can act on.

    ``message`` says what was wrong and where, ``hint`` what to do next.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(kind: type[KgqaError], args: tuple[Any, ...], state: dict[str, Any]) -> KgqaError:
    """Rebuild a pickled error of class ``kind``, whatever its constructor's parameters."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(KgqaError, ValueError):
    """An invalid option, or an invalid combination of options."""


class GraphError(KgqaError):
    """A graph store could not perform an operation."""


class StoreUnavailableError(GraphError, ConnectionError):
    """The store cannot be reached: no server, wrong password, no such database."""


class KGNotFoundError(GraphError, LookupError):
    """The store has no knowledge graph of that name."""


class EntityNotFoundError(GraphError, LookupError):
    """No entity has that id or name."""


class IngestError(KgqaError):
    """A load failed."""


class DumpNotFoundError(IngestError, FileNotFoundError):
    """The dump was not found."""


class DumpMalformedError(IngestError, ValueError):
    """The dump has a format that its loader does not read, or is truncated."""


class IndexFault(KgqaError):  # noqa: N818 - "IndexError" is taken
    """The trie index cannot be used."""


class IndexMissingError(IndexFault, LookupError):
    """A KG has no trie index."""


class IndexStaleError(IndexFault):
    """The index was made for another KG version, tokenizer or path format."""


class ShardDamagedError(IndexFault, OSError):
    """A shard's bytes are not those that were written."""


class ConstraintError(KgqaError):
    """A constraint cannot be built; decoding without one is never an option."""


class EmptyLanguageError(ConstraintError):
    """The topic entities have no path, so the model may write nothing."""


class MarkerMissingError(ConstraintError):
    """The tokenizer lacks a marker that the path format needs."""


class LinkingError(KgqaError):
    """No topic entity was found in the question."""


class ModelError(KgqaError):
    """A language model could not be used."""


class ModelNotFoundError(ModelError, FileNotFoundError):
    """The model is neither on disk nor available for download."""


class AdapterMismatchError(ModelError, ValueError):
    """The adapter was trained for another model or another path format."""


class PackagesMissingError(ModelError, ImportError):
    """Packages that language models and training need are not installed."""


class GeneralModelError(ModelError):
    """The OpenAI-compatible server failed or gave an invalid reply."""


class WorkerError(KgqaError):
    """A worker process or a cluster is missing, or ended before its work was done."""


class TimeLimitError(KgqaError, TimeoutError):
    """A question exceeded its time limit."""


class PlanError(KgqaError, ValueError):
    """A plan that cannot be read, or that does not fit the schema of the KG."""


class DataError(KgqaError, ValueError):
    """A question file cannot be read."""


HALF_A_PAIR = (
    "The text holds half of a surrogate pair, which is not a character.",
    "Send text as UTF-8, or escape whole pairs.",
)
"""Message and hint for a text that cannot be written."""

NO_MEMORY = (
    "There was not enough memory for this.",
    "Ask for fewer paths or hops, use a smaller file or model, or give it more memory.",
)
"""Message and hint for memory that ran out."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error, of any library, means that memory ran out."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    said = str(error).casefold()
    if isinstance(error, ImportError):
        return "failed to map segment" in said or "cannot allocate" in said
    if type(error).__name__ == "PanicException":  # of a library in Rust, which Python gave none
        return "pointer is null" in said
    few = ("out of memory", "can't allocate", "can't start new thread")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(one in said for one in few)
    )


_SCHEME = re.compile(r"\b\w[\w+.-]{0,30}:(?=//|/{0,3}[^\s/@:]+:[^\s]*@)/{0,3}")
_AUTHORITY = re.compile(r"[^\s/?#]*")
_RUN = re.compile(r"\S*")
_BLANK_FIRST = re.compile(r"[^\s/?#@]*:\s+\S+@")  # a login whose password begins with blanks
_HOSTS = re.compile(r"(\[[0-9a-f:.%]*\]|[^\s:@\[\]]*)(:\d*)?[\])}>,;.'\"`!]*", re.IGNORECASE)
_NAMED = re.compile(
    r"(?<![\w.%-])(?P<name>[\w.%-]+(?:\[[\w-]*\])*)(\s?(?:=|%3D)\s?|['\"]\s?:\s?)", re.IGNORECASE
)
_VALUE = re.compile(  # a quote or bracket that nothing closes hides the rest
    r"'(?:[^']|'')*(?:'|$)|\"(?:[^\"]|\"\")*(?:\"|$)|\{(?:[^}]|\}\})*(?:\}|$)"
    r"|(?:[^\s&;'\"]|['\"](?=[\w%])|;(?![\w ]+=))+"
)
_SECRET = re.compile(
    r"(pass(word|wd|phrase)?|pwd|\bpw|odbc_connect|token|secret|credentials?|session(_?id)?|jwt"
    r"|(api|access|account|master|private|secret|shared|subscription)[_-]?key"
    r"|signature|\b(sig|auth|authorization))\W*$",
    re.IGNORECASE,
)
_LOGIN = re.compile(  # of an address that lacks its scheme
    r"(?<![^\s'\"(\[<,=/／])(?!mailto:)[^\s@:/／'\"(\[<,=]{1,200}:(?!//)[^\s@]{1,200}@"
    r"(?=[\w.-]+[:/]|\[|[^\W\d]|\d+\.\d+\.\d+\.\d)"  # a host, and no version of a package
)
_WEB = ("http://", "https://")
_HIDDEN = "***"
_FAR = 200  # characters that a password with blanks may have
_LONGEST = 20_000  # characters of a text: in a longer one the search would take seconds
_LONG_RUN = re.compile(r"(\S{1000})\S+")


def without_secrets(text: str, url: str | None = None) -> str:
    """Remove user, password and tokens of any URL from ``text``.

    A password may hold what a URL should escape: up to the last ``@`` all is left out, and where
    an authority cannot be parsed (``postgresql://user:password/shop``) the whole authority is.
    Values of ``password=…`` and its kind are hidden, too. ``url``: one whose secrets another
    library's message may repeat outside of a URL; its password and the parts of it go.
    Of a very long text the ends of long words are cut off, and then its own end.

    >>> without_secrets("bolt://neo4j:secret@localhost:7687 is down")
    'bolt://localhost:7687 is down'
    >>> without_secrets("cannot read postgresql://shop:se/cr@et@db/shop?password=abc")
    'cannot read postgresql://db/shop?password=***'
    >>> without_secrets("invalid port: 'secret'", "postgresql://shop:secret/shop")
    "invalid port: '***'"
    """
    pieces: list[str] = []
    position = 0
    if len(text) > _LONGEST:
        text = _LONG_RUN.sub(r"\1…", text)
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    while match := _SCHEME.search(text, position):
        pieces.append(text[position : match.end()])
        shown, position = _without_user(match[0], text, match.end())
        pieces.append(shown)
    pieces.append(text[position:])
    cleaned = _LOGIN.sub(f"{_HIDDEN}@", _without_values("".join(pieces)))
    for secret in _secrets(url) if url else ():
        cleaned = cleaned.replace(secret, _HIDDEN)
    return cleaned


def _without_user(scheme: str, text: str, begin: int) -> tuple[str, int]:
    """Return what may be shown of the authority at ``begin``, and where the text continues.

    The user and password before it are left out; all of it, if it cannot be parsed.
    """
    authority = _matched(_AUTHORITY, text, begin)
    run = _matched(_RUN, text, begin)
    last = run.rfind("@") if _is_login(scheme, authority) else authority.rfind("@")
    after = text[begin : begin + len(run) + _FAR]
    if last < 0 and (not _HOSTS.fullmatch(authority) or _matched(_BLANK_FIRST, after, 0)):
        # a password with a blank or a line feed: what follows up to its @ belongs to it
        last = after.rfind("@")
    if last >= 0:
        begin += last + 1
        authority = _matched(_AUTHORITY, text, begin)
    if all(_HOSTS.fullmatch(part) for part in authority.split(",")):
        return authority, begin + len(authority)
    # a password may hold a slash: nothing that follows can be distinguished from it
    return _HIDDEN, begin + len(_matched(_RUN, text, begin).rstrip("])}>,;.'\"`!"))


def _secret_values(text: str) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of the values to hide because of their names, such as ``password=``.

    In the query of a URL, anything named key is hidden as well.
    """
    position = 0
    while match := _NAMED.search(text, position):
        position = match.end()
        name = unquote(match["name"])
        asked = text[max(0, match.start() - 1) : match.start()] in ("?", "&")
        if _SECRET.search(name) or (asked and name.casefold().endswith("key")):
            value = _VALUE.match(text, position)
            if value:
                yield value.span()
                position = value.end()


def _without_values(text: str) -> str:
    """Replace secret values in a text."""
    pieces: list[str] = []
    position = 0
    for begin, end in _secret_values(text):
        pieces += text[position:begin], _HIDDEN
        position = end
    return "".join([*pieces, text[position:]])


def _is_login(scheme: str, authority: str) -> bool:
    """Return whether an ``@`` after the authority may end a password (not in a web page's path)."""
    return scheme.casefold() not in _WEB or ":" in authority


def _matched(pattern: re.Pattern[str], text: str, begin: int) -> str:
    """Return what a pattern matches at a position, "" if nothing."""
    found = pattern.match(text, begin)
    return found[0] if found else ""


def _secrets(url: str) -> list[str]:
    """Return a URL's password and what a parser may take for it, the longest first.

    Parts of fewer than three characters are left out.
    """
    rest = url.partition("://")[2] or url.partition(":")[2]
    login, at, _ = rest.rpartition("@")
    if not at:
        authority = _matched(_AUTHORITY, rest, 0)
        user, _, secret = authority.partition(":")
        login = "" if _HOSTS.fullmatch(authority) else f"{user}:{secret}"
    user, colon, password = login.partition(":")
    password = password if colon else user
    found = {login, unquote(login), *re.split(r"[:@/?#]", password), password}
    found |= {unquote(part) for part in found}
    found.add(b64encode(unquote(login).encode(errors="replace")).decode())  # as it is sent
    found |= {url[begin:end] for begin, end in _secret_values(url)}
    return sorted((part for part in found if len(part) > 2), key=len, reverse=True)


def first_line(error: BaseException) -> str:
    """Return the first line of another library's message, for use in a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__
