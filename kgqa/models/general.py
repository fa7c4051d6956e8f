"""The general LLM: any server that speaks OpenAI's chat completions.

Calls and tokens are counted, and a call that the cache knows, one SQLite file that several threads
and processes may use, is not made again. It never forgets, and holds no key or credentials of the
URL; neither does a message.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import openai
from openai.types.chat import ChatCompletion

from kgqa.errors import GeneralModelError, without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pydantic import SecretStr

OPENAI_URL = "https://api.openai.com/v1"
_SHOWN = 200  # characters of a server's own words in a message
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
    """What a :class:`GeneralLLM` has used so far. A server that reports no tokens counts none.

    ``cached``: calls that were answered from the cache; they are not calls and cost nothing.
    """

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model wrote, and how many tokens that took as the server counts them."""

    text: str
    prompt_tokens: int
    completion_tokens: int


def call_key(
    url: str, model: str, messages: Sequence[Mapping[str, str]], parameters: Mapping[str, Any]
) -> str:
    """Return the key of a call: hex SHA-256 of all that decides its answer."""
    content = [_VERSION, url.rstrip("/"), model, list(messages), dict(parameters)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class CallCache:
    """The answers of earlier calls. Use it in ``with``, or close it.

    Raises GeneralModelError if the file cannot be used, now or later.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
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
        """Return what was answered to the call, None if it was not made yet."""
        query = "SELECT text, prompt_tokens, completion_tokens FROM calls WHERE key = ?"
        row = self._run(query, (key,))
        return None if row is None else Completion(*row)

    def put(self, key: str, model: str, answer: Completion) -> None:
        """Keep the answer to a call; it is on disk when this returns. The first one stays."""
        self._run(
            "INSERT OR IGNORE INTO calls (key, model, text, prompt_tokens, completion_tokens) "
            "VALUES (?, ?, ?, ?, ?)",
            (key, model, answer.text, answer.prompt_tokens, answer.completion_tokens),
        )

    def __len__(self) -> int:
        return int(self._run("SELECT count(*) FROM calls", ())[0])

    def _run(self, query: str, values: tuple[str | int, ...]) -> Any:
        with self._lock:
            try:
                return self._file.execute(query, values).fetchone()
            except (sqlite3.Error, UnicodeEncodeError) as error:
                raise self._unusable(error) from None

    def close(self) -> None:
        """Close the file. Calling it again does nothing."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> CallCache:
        """Return the cache itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def _unusable(self, error: Exception) -> GeneralModelError:
        return GeneralModelError(
            f"The file of the general model's earlier calls, {self.path}, cannot be used: {error}.",
            "Remove it, check that the disk has room, or set `cache_calls` to false.",
        )


class GeneralLLM:
    """A client for one model of one server; may be used by several threads.

    ``base_url`` None is OpenAI's own, which needs a ``key``. ``timeout_s`` is for one attempt,
    ``retries`` for what may pass: no connection, time-outs, 408, 409, 429 and 5xx. ``cache``: the
    calls that were made before; it is closed with the client. Raises GeneralModelError.
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
        self._key = key.get_secret_value() if key else ""
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._usage = Usage(0, 0, 0)
        self._refused: frozenset[str] = frozenset()  # parameters that this server's model refuses
        if not self._key and self._url.rstrip("/") == OPENAI_URL:
            raise GeneralModelError(
                f"There is no key for {OPENAI_URL}.",
                "Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own.",
            )
        if not self._url.startswith(("http://", "https://")):
            raise GeneralModelError(
                f"The general model's URL {self.url} does not begin with http:// or https://.",
                "Set OPENAI_BASE_URL to the server's address, such as http://localhost:8000/v1.",
            )
        self._client = openai.OpenAI(
            base_url=self._url,
            api_key=self._key or "none",  # the client insists on one
            timeout=timeout_s,
            max_retries=retries,
        )

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
        system: str | None = None,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> Completion:
        """Return what the model answers to ``prompt`` as a user's turn.

        With a ``temperature`` above 0 it is a sample; ``seed`` distinguishes samples of one prompt
        to the cache and to servers that know seeds. Raises GeneralModelError.
        """
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
        wanted: dict[str, Any] = {"temperature": temperature}
        if max_tokens is not None:
            wanted["max_tokens"] = max_tokens
        if seed is not None:
            wanted["seed"] = seed
        key = call_key(self.url, self.model, messages, wanted)
        if self._cache is not None and (known := self._cache.get(key)) is not None:
            self._count(cached=1)
            return known
        self._count(calls=1)
        response = self._ask(messages, wanted)
        # The client does not check what it reads: any field may be missing or of another type.
        message = getattr(response.choices[0], "message", None) if response.choices else None
        text = getattr(message, "content", None)
        if not isinstance(text, str):
            self._fail("answered without any text", "Check that the model can chat.")
        used = response.usage
        tokens = (used.prompt_tokens or 0, used.completion_tokens or 0) if used else (0, 0)
        self._count(prompt_tokens=tokens[0], completion_tokens=tokens[1])
        answer = Completion(text, *tokens)
        if self._cache is not None:
            self._cache.put(key, self.model, answer)
        return answer

    def close(self) -> None:
        """Close the connections and the cache."""
        self._client.close()
        if self._cache is not None:
            self._cache.close()

    def __enter__(self) -> GeneralLLM:
        """Return the client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def _ask(self, messages: list[dict[str, str]], wanted: dict[str, Any]) -> ChatCompletion:
        while True:
            options = {k: v for k, v in wanted.items() if k not in self._refused}
            if "max_tokens" in self._refused and "max_tokens" in wanted:
                options["max_completion_tokens"] = wanted["max_tokens"]
            try:
                response: object = self._client.chat.completions.create(
                    model=self.model,
                    messages=messages,  # type: ignore[arg-type]
                    **options,
                )
            except openai.BadRequestError as error:
                # Reasoning models take no temperature and call the limit otherwise.
                if error.param in options and error.param in wanted:
                    self._refused |= {error.param}
                    continue
                self._explain(error)
            except openai.OpenAIError as error:
                self._explain(error)
            except ValueError as error:  # a page that is not JSON
                self._fail(f"answered something that is not JSON ({type(error).__name__})", _URL)
            if not isinstance(response, ChatCompletion) or response.choices is None:
                self._fail("answered something other than a chat completion", _URL)
            return response

    def _explain(self, error: openai.OpenAIError) -> NoReturn:
        if isinstance(error, openai.APITimeoutError):
            self._fail(
                f"gave no answer within {self._timeout_s:g} s", "Is it busy, or the model too big?"
            )
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
        text = " ".join(without_secrets(error.message).split())
        if self._key:
            text = text.replace(self._key, "***")
        return f": {text[:_SHOWN]}" if text else ""

    def _fail(self, what: str, hint: str) -> NoReturn:
        raise GeneralModelError(f"The general model's server {self.url} {what}.", hint) from None

    def _count(self, **more: int) -> None:
        with self._lock:
            used = {name: getattr(self._usage, name) + added for name, added in more.items()}
            self._usage = replace(self._usage, **used)
