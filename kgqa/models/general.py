"""The general LLM: a client of any server with OpenAI's chat completions interface.

Calls and tokens are counted, and a call that the cache knows, one SQLite file that several threads
and processes may use, is not made again. It never forgets, and holds no key or credentials of the
URL; neither does a message. A server is not trusted: a call has a deadline for all of it, a reply a
length, and nothing is sent anywhere but to the address that was named.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import openai

from kgqa.closing import Closing
from kgqa.deadline import check_deadline
from kgqa.errors import GeneralModelError, without_secrets
from kgqa.permissions import inherit_permissions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
    from pathlib import Path

    from pydantic import SecretStr

T = TypeVar("T")

OPENAI_URL = "https://api.openai.com/v1"
_MAX_REPEATED_CHARACTERS = 200  # characters of a server's own words in a message
MOST_BYTES = 4 << 20  # of a reply, as it comes over the network; answers take some thousand
_MOST_TOKENS = 1 << 40  # a count above is not one
_LOOK_S = 0.5  # between two looks whether anybody waits for a call
_PAUSE_S = 0.5  # before the first retry, doubled each time
_URL = "Check OPENAI_BASE_URL: it must name the API, not a web page (it often ends in /v1)."
FILE_NAME = "general-calls.sqlite"
_VERSION = 1
_WAIT_S = 30.0  # for another process that writes
_TABLE = """
CREATE TABLE IF NOT EXISTS calls (
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    text TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls and tokens that a :class:`GeneralLLM` has used. Servers may report no tokens.

    ``cached``: replies from the cache, which are not counted as calls.
    """

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """The model's reply, and the numbers of tokens as the server counts them."""

    text: str
    prompt_tokens: int
    completion_tokens: int


def call_key(
    url: str, model: str, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any]
) -> str:
    """Return the cache key of a call: hex SHA-256 of everything that decides its answer."""
    content = [_VERSION, url.rstrip("/"), model, list(messages), dict(parameters)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class CallCache(Closing):
    """A file of replies to earlier calls. Use it in ``with``, or close it.

    Raises GeneralModelError, at any time, if the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            with inherit_permissions(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()  # with questions and replies in it
            self._file = sqlite3.connect(
                path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None
        try:
            self._file.execute(_TABLE)
        except sqlite3.Error as error:
            self._file.close()
            raise self._unusable(error) from None

    def get(self, key: str) -> Completion | None:
        """Return the cached reply to the call with this key, None if there is none."""
        query = "SELECT text, prompt_tokens, completion_tokens FROM calls WHERE key = ?"
        row = self._run(query, (key,))
        return None if row is None else Completion(*row)

    def put(self, key: str, model: str, answer: Completion) -> None:
        """Store the reply to a call durably; an earlier reply to the same call is kept."""
        self._run(
            "INSERT OR IGNORE INTO calls (key, model, text, prompt_tokens, completion_tokens) "
            "VALUES (?, ?, ?, ?, ?)",
            (key, model, answer.text, answer.prompt_tokens, answer.completion_tokens),
        )

    def __len__(self) -> int:
        return int(self._run("SELECT count(*) FROM calls", ())[0])

    def _run(self, query: str, values: tuple[str | int, ...]) -> Any:
        """Run one SQL statement and return its first row, None if it has none."""
        with self._lock:
            try:
                return self._file.execute(query, values).fetchone()
            except (sqlite3.Error, UnicodeEncodeError) as error:
                raise self._unusable(error) from None

    def close(self) -> None:
        """Close the file. Calling it again does nothing."""
        with self._lock:
            self._file.close()

    def _unusable(self, error: Exception) -> GeneralModelError:
        """Return the error for a cache file that cannot be used."""
        return GeneralModelError(
            f"The file of the general model's earlier calls, {self.path}, cannot be used: {error}.",
            "Remove it, check that the disk has room, or set `cache_calls` to false.",
        )


class _TooLong(Exception):  # noqa: N818 - named for what the reply is
    """Raised for a reply of more than MOST_BYTES, or a compressed one of unknown length."""


async def _bound(response: Any) -> None:
    """Make reading ``response`` fail after MOST_BYTES."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise _TooLong
    read = response.aiter_raw

    async def bounded(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Yield the chunks of the body; raise _TooLong after MOST_BYTES."""
        size = 0
        async for chunk in read(chunk_size):
            size += len(chunk)
            if size > MOST_BYTES:
                raise _TooLong
            yield chunk

    response.aiter_raw = bounded


class GeneralLLM(Closing):
    """A client for one model of one server; safe for several threads.

    ``base_url`` None is OpenAI's own, which needs a ``key``; a user and password in the URL replace
    the key. ``timeout_s`` limits a call to the last byte of its reply, with all ``retries``, which
    follow transient errors: no connection, 408, 409, 429 and 5xx. ``cache``: replies to earlier
    calls; it is closed with the client. Raises GeneralModelError.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key: SecretStr | None = None,
        timeout_s: float = 120.0,
        retries: int = 2,
        cache: CallCache | None = None,
    ) -> None:
        self.model = model
        self._cache = cache
        self._url = base_url or OPENAI_URL
        self._key = key.get_secret_value().strip() if key else ""
        self._timeout_s = timeout_s
        self._retries = retries
        self._lock = threading.Lock()
        self._usage = Usage(0, 0, 0)
        self._refused: frozenset[str] = frozenset()  # parameters that this server's model refuses
        if not self._key and self._url.rstrip("/") == OPENAI_URL:
            raise GeneralModelError(
                f"{OPENAI_URL} needs a key.",
                "Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own.",
            )
        if not all("!" <= character <= "~" for character in self._key):
            raise GeneralModelError(
                "The general model's key holds characters that a key cannot have.",
                "Set OPENAI_API_KEY to letters, digits and signs of ASCII, without blanks.",
            )
        if not self._url.startswith(("http://", "https://")):
            raise GeneralModelError(
                f"The general model's URL {self.url} does not begin with http:// or https://.",
                "Set OPENAI_BASE_URL to the server's address, such as http://localhost:8000/v1.",
            )
        try:
            has_user = bool(urlsplit(self._url).username)
        except ValueError:  # which the client says below, without a part of the password
            has_user = False
        self.ignores_key = bool(self._key and has_user)  # credentials are sent in its place
        try:
            self._client = openai.AsyncOpenAI(
                base_url=self._url,
                api_key=self._key or "none",  # the client insists on one
                timeout=None,  # time-outs of a read alone never end a reply that drips
                max_retries=0,  # a pause that would pass the deadline is not made
                default_headers={"Accept-Encoding": "identity", "Connection": "close"},
                http_client=openai.DefaultAsyncHttpxClient(
                    follow_redirects=False,  # a redirect would send question and facts elsewhere
                    event_hooks={"response": [_bound]},
                ),
            )
        except Exception as error:  # its words may be a part of a password
            raise GeneralModelError(
                f"The general model's server {self.url} cannot be asked ({type(error).__name__}).",
                "Check OPENAI_BASE_URL, and the proxies that HTTP_PROXY and its kind name.",
            ) from None

    @property
    def url(self) -> str:
        """The server's URL without credentials."""
        return without_secrets(self._url)

    @property
    def usage(self) -> Usage:
        """Calls and tokens so far; calls that failed count as calls."""
        return self._usage

    def complete(
        self,
        prompt: str,
        *,
        max_tokens: int | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        """Send ``prompt`` as the user's turn at temperature 0 and return the reply.

        A reply to an earlier, equal call is taken from the cache; a new one is stored. ``schema``:
        the JSON schema of the reply; a server that refuses schemas is called without. Raises
        GeneralModelError.
        """
        messages = [{"role": "user", "content": _whole(prompt)}]
        wanted: dict[str, Any] = {"temperature": 0.0}
        if max_tokens is not None:
            wanted["max_tokens"] = max_tokens
        if schema is not None:
            form = {"name": "reply", "strict": True, "schema": dict(schema)}
            wanted["response_format"] = {"type": "json_schema", "json_schema": form}
        key = call_key(self.url, self.model, messages, wanted)
        if self._cache is not None and (known := self._cache.get(key)) is not None:
            self._count(cached=1)
            return known
        self._count(calls=1)
        answer = self._read(_waited(self._ask(messages, wanted)))
        self._count(prompt_tokens=answer.prompt_tokens, completion_tokens=answer.completion_tokens)
        if self._cache is not None:
            self._cache.put(key, self.model, answer)
        return answer

    def close(self) -> None:
        """Close the connections and the cache."""
        _started(self._client.close()).result()
        if self._cache is not None:
            self._cache.close()

    async def _ask(self, messages: list[dict[str, str]], wanted: dict[str, Any]) -> bytes:
        """Send a chat completion request with retries; return the body of the reply.

        ``wanted``: parameters of the call; those that the server refuses are left out, and
        remembered. Raises GeneralModelError.
        """
        attempts = 0
        refused = self._refused
        end = time.monotonic() + self._timeout_s
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    options = {k: v for k, v in wanted.items() if k not in refused}
                    if "max_tokens" in refused and "max_tokens" in wanted:
                        options["max_completion_tokens"] = wanted["max_tokens"]
                    try:
                        raw = await self._client.chat.completions.with_raw_response.create(
                            model=self.model,
                            messages=messages,  # type: ignore[arg-type]
                            **options,
                        )
                    except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                        # Reasoning models take no temperature and call the limit otherwise; not
                        # every server knows schemas, or says that it does not.
                        param = str(error.param).split(".")[0]
                        if param not in options.keys() & wanted:
                            param = "response_format"
                        if param not in options:
                            self._explain(error)
                        refused |= {param}
                    except _TooLong:
                        self._fail(
                            f"answered more than {MOST_BYTES >> 20} MiB, or compressed", _URL
                        )
                    except Exception as error:  # of the client, or of the HTTP library below it
                        pause, left = _pause(error, attempts), end - time.monotonic()
                        if attempts >= self._retries or not _may_pass(error) or pause > left:
                            self._explain(error)
                        attempts += 1
                        await asyncio.sleep(pause)
                    else:
                        self._refused |= refused
                        return bytes(raw.content)
        except TimeoutError:
            self._fail(
                f"gave no answer within {self._timeout_s:g} s", "Is it busy, or the model too big?"
            )

    def _read(self, body: bytes) -> Completion:
        """Parse the body of a reply; missing or malformed token counts are 0.

        Raises GeneralModelError without a text.
        """
        try:
            content = json.loads(body)
        except (ValueError, RecursionError) as error:  # a page, or nested without end
            self._fail(f"answered something that is not JSON ({type(error).__name__})", _URL)
        choices = content.get("choices") if isinstance(content, dict) else None
        if not isinstance(choices, list):
            self._fail("answered something other than a chat completion", _URL)
        message = choices[0].get("message") if choices and isinstance(choices[0], dict) else None
        text = message.get("content") if isinstance(message, dict) else None
        if not isinstance(text, str):
            self._fail("answered without any text", "Check that the model can chat.")
        used = content.get("usage")
        counts = (
            used.get(name) if isinstance(used, dict) else None
            for name in ("prompt_tokens", "completion_tokens")
        )
        tokens = [n if type(n) is int and 0 <= n < _MOST_TOKENS else 0 for n in counts]
        return Completion(_whole(text), *tokens)

    def _explain(self, error: Exception) -> NoReturn:
        """Raise the GeneralModelError that explains an error of the client library."""
        if isinstance(error, openai.APIConnectionError):
            self._fail("cannot be reached", "Is it running, and is OPENAI_BASE_URL right?")
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            # Servers repeat parts of the key here: their own words stay out of the message.
            self._fail(f"refused the key ({error.status_code})", "Check OPENAI_API_KEY.")
        if isinstance(error, openai.NotFoundError):
            self._fail(
                f"knows no model {self.model}, or no chat completions at this address (404)",
                "Check `general_model` and OPENAI_BASE_URL (it often ends in /v1).",
            )
        if isinstance(error, openai.APIStatusError) and 300 <= error.status_code < 400:
            self._fail(
                f"sends elsewhere ({error.status_code}), which is not followed",
                "Set OPENAI_BASE_URL to the address that it moved to.",
            )
        if isinstance(error, openai.RateLimitError):
            self._fail(
                f"refused for now, too many calls or no credit left (429){self._words(error)}",
                "Wait, or check the account.",
            )
        if isinstance(error, openai.APIStatusError):
            self._fail(
                f"failed with status {error.status_code}{self._words(error)}", "See its log."
            )
        self._fail(f"answered something unusable ({type(error).__name__})", _URL)

    def _words(self, error: openai.APIStatusError) -> str:
        """Return the server's own error message, shortened and without secrets; "" for none."""
        text = " ".join(without_secrets(error.message, self._url).split())
        text = text.replace(self._key, "***") if self._key else text
        return f": {text[:_MAX_REPEATED_CHARACTERS]}" if text else ""

    def _fail(self, what: str, hint: str) -> NoReturn:
        """Raise GeneralModelError: the server and ``what`` it did."""
        raise GeneralModelError(f"The general model's server {self.url} {what}.", hint) from None

    def _count(self, **more: int) -> None:
        """Add to the usage counters."""
        with self._lock:
            used = {name: getattr(self._usage, name) + added for name, added in more.items()}
            self._usage = replace(self._usage, **used)


@cache
def _loop(_process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop that makes all calls of this process, in a thread of its own.

    ``_process`` is the process id, so that a forked process gets another loop.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def _started(call: Coroutine[Any, Any, T]) -> Future[T]:
    """Start ``call`` on the event loop thread, and return its future."""
    return asyncio.run_coroutine_threadsafe(call, _loop(os.getpid()))


def _waited(call: Coroutine[Any, Any, T]) -> T:
    """Run ``call`` on the event loop thread and return its result.

    It is cancelled if the question is, whose error propagates.
    """
    future = _started(call)
    try:
        while not wait([future], _LOOK_S).done:
            check_deadline()
        return future.result()
    finally:
        future.cancel()


def _pause(error: Exception, attempts: int) -> float:
    """Return the seconds to wait before a retry: the server's request, or exponential backoff."""
    usual: float = _PAUSE_S * 2**attempts
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        return max(_PAUSE_S, float(headers.get("Retry-After", usual)))
    except ValueError:  # a date
        return usual


def _may_pass(error: Exception) -> bool:
    """Return whether an error is transient, so that a retry may succeed."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code in (408, 409, 429) or error.status_code >= 500
    return isinstance(error, openai.APIConnectionError)


def _whole(text: str) -> str:
    """Return ``text`` with unpaired surrogates replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
