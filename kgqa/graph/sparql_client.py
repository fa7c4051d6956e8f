"""SPARQL over HTTP: terms as text, one request, and all its limits.

Every IRI and every literal that becomes part of a query passes :func:`iri` or :func:`literal`.
A request has a time limit, a bound on the bytes of its reply, and waits where the server asks for
it (429, 503); redirects lead to the same host alone. Credentials come from the environment:
``KGQA_SPARQL_USER`` and ``KGQA_SPARQL_PASSWORD``, or ``KGQA_SPARQL_TOKEN``.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import string
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

from kgqa.closing import Closing
from kgqa.errors import GraphError, StoreUnavailableError, UsageError, first_line, without_secrets
from kgqa.graph.literals import XSD, value_id
from kgqa.version import __version__

TIMEOUT = 60.0  # seconds for one request
MAX_BYTES = 32 << 20  # of one reply
_TRIES = 4  # of a request that the server asks to repeat
_LONGEST_WAIT = 30.0  # seconds that a server may ask to wait
_REDIRECTS = 3
_IRI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:"
    r'(?:%[0-9A-Fa-f]{2}|[^\x00-\x20<>"{}|^`\\\[\]%\x7f-\x9f])*'
)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPECIAL = re.compile(r'[\\"\n\r\t\x00-\x1f\x7f]')
_TAG = re.compile(r"[A-Za-z]+(?:-[A-Za-z0-9]+)*")
_VALUE_ID = re.compile(r'"(.*)"(?:@([\w-]+)|\^\^(?:xsd:(\w+)|<(.*)>))?', re.DOTALL)


def iri(text: str) -> str:
    """Format an IRI for a query. Raises GraphError if it has forbidden characters.

    >>> iri("http://x.org/a")
    '<http://x.org/a>'
    """
    if not _IRI.fullmatch(text):
        raise GraphError(f"{text[:80]!r} is not an IRI.", "Give an id as the endpoint has it.")
    return f"<{text}>"


def literal(text: str, language: str | None = None, datatype: str | None = None) -> str:
    r"""Format a literal for a query, escaped so that nothing in ``text`` can end it.

    >>> print(literal('say "x" }', "en"))
    "say \"x\" }"@en
    """

    def escaped(match: re.Match[str]) -> str:
        """Return the escape sequence of one character."""
        return _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}"

    body = f'"{_SPECIAL.sub(escaped, text)}"'
    if language:
        if not _TAG.fullmatch(language):
            raise GraphError(f"{language[:40]!r} is not a language tag.")
        return f"{body}@{language}"
    return f"{body}^^{iri(datatype)}" if datatype else body


def term_of(id_: str, prefix: str = "") -> str:
    """Format the id of an entity or value as a SPARQL term; ``prefix`` precedes short IRIs."""
    match = _VALUE_ID.fullmatch(id_) if id_.startswith('"') else None
    if match is None:
        return iri(id_ if ":" in id_ else prefix + id_)
    text, language, short, datatype = match.groups()
    return literal(text, language, XSD + short if short else datatype)


def id_of(term: dict[str, Any], prefix: str = "") -> str:
    """Return the id of a term of a reply; the inverse of :func:`term_of`."""
    if term.get("type") == "uri":
        return str(term["value"]).removeprefix(prefix)
    datatype = term.get("datatype")
    plain = datatype in (None, f"{XSD}string")
    return value_id(term["value"], term.get("xml:lang"), None if plain else datatype)


def is_term(id_: str, prefix: str = "") -> bool:
    """Return whether an id can be formatted as a term of a query."""
    try:
        term_of(id_, prefix)
    except GraphError:
        return False
    return True


@dataclass(slots=True)
class SparqlClient(Closing):
    """An HTTP client of one SPARQL endpoint. Raises StoreUnavailableError, GraphError.

    ``requests``: the number of requests sent; ``widest``: the most rows of any reply, a lower bound
    of the server's limit on rows.
    """

    url: str
    graph: str = ""  # the named graph that is asked; "" for the default one
    timeout: float = TIMEOUT
    max_bytes: int = MAX_BYTES
    requests: int = 0
    widest: int = 0
    server: str = ""
    _connection: http.client.HTTPConnection | None = None

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            is_one = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # a broken address, a port that cannot be
            is_one = False
        if not is_one:
            raise UsageError(
                f"{without_secrets(self.url)} is not the URL of a SPARQL endpoint.",
                "Write it like https://host/sparql.",
            )
        if "@" in parts.netloc or without_secrets(self.url) != self.url:  # nothing shows it then
            raise UsageError(
                "The URL of a SPARQL endpoint holds no credentials.",
                "Set KGQA_SPARQL_USER and KGQA_SPARQL_PASSWORD, or KGQA_SPARQL_TOKEN.",
            )

    def select(self, query: str) -> list[dict[str, Any]]:
        """Run a query; return its rows, each an object of terms by variable.

        A term has type, value, language, datatype. Raises GraphError if the reply is not a SPARQL
        result.
        """
        content = self._send(query)
        try:
            rows = json.loads(content)["results"]["bindings"]
        except (ValueError, KeyError, TypeError, RecursionError):
            shown = content[:60].decode(errors="replace").strip()
            raise GraphError(
                f"The reply of {self.url} is not SPARQL results in JSON (it begins {shown!r}).",
                "Check that the URL is the endpoint itself, not its page; else ask again.",
            ) from None
        if not isinstance(rows, list) or not all(map(_is_row, rows)):
            raise GraphError(f"The reply of {self.url} has malformed rows.")
        self.widest = max(self.widest, len(rows))
        return list(map(_Row, rows))

    def _send(self, query: str) -> bytes:
        """Send a query, following redirects and waiting for a busy server; return the reply."""
        url, began = self.url, time.monotonic()
        tries = redirects = 0
        while True:
            self.requests += 1
            try:
                status, headers, content = self._reply(url, query, began)
            except TimeoutError:
                raise self._timeout_error() from None
            except (OSError, http.client.HTTPException, UnicodeError) as error:  # of a host's name
                self.close()
                why = without_secrets(first_line(error)) or type(error).__name__
                raise StoreUnavailableError(
                    f"The endpoint {self.url} cannot be reached: {why}.",
                    "Check that it is running and that the URL is right.",
                ) from None
            if status in (429, 503) and tries < _TRIES - 1:
                tries += 1
                self._wait(headers.get("retry-after"), tries, began)
            elif status in (301, 302, 303, 307, 308) and redirects < _REDIRECTS:
                redirects += 1
                url = self._redirected(url, headers.get("location") or "")
            elif status == 200:
                self.server = headers.get("server") or self.server
                return content
            else:
                raise self._status_error(status, content)

    def _reply(
        self, url: str, query: str, began: float
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Return status, headers and content of one reply, within the limits of time and size."""
        data = {"query": query} | ({"default-graph-uri": self.graph} if self.graph else {})
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        path = quote(path, safe=string.punctuation)
        with self._post(path, urlencode(data).encode(), _headers()) as reply:
            return reply.status, reply.headers, self._content(reply, began)

    def _content(self, reply: http.client.HTTPResponse, began: float) -> bytes:
        """Read a reply's content. Raises GraphError if it is too large or too slow."""
        pieces, size = [], 0
        try:
            while piece := reply.read1(1 << 16):
                size += len(piece)
                if size > self.max_bytes:
                    raise GraphError(
                        f"The reply of {self.url} is larger than {self.max_bytes >> 20} MB.",
                        "Ask with fewer hops, or a question that is about less.",
                    )
                if time.monotonic() - began > self.timeout:
                    raise self._timeout_error()
                pieces.append(piece)
        except BaseException:
            self.close()  # what is left of the reply is not the next one's
            raise
        if reply.length:
            self.close()
            raise GraphError(f"The reply of {self.url} ended too early.", "Ask again.")
        return b"".join(pieces)

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        """Send one POST request, on a new connection if the server closed an idle one."""
        reused = self._connection is not None
        try:
            if self._connection is None:
                self._connection = self._new_connection()
            self._connection.request("POST", path, body, headers)
            return self._connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError):
            self.close()
            if not reused:
                raise
            return self._post(path, body, headers)  # the server closed an idle connection
        except BaseException:
            self.close()
            raise

    def _new_connection(self) -> http.client.HTTPConnection:
        """Return an unopened HTTP or HTTPS connection to the endpoint."""
        parts = urlsplit(self.url)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        return kind(parts.hostname or "", parts.port, timeout=self.timeout)

    def _timeout_error(self) -> GraphError:
        """Return the error of an endpoint that did not answer in time."""
        return GraphError(
            f"The endpoint {self.url} did not answer within {self.timeout:.0f} s.", "Ask again."
        )

    def _wait(self, asked: str | None, tries: int, began: float) -> None:
        """Sleep as long as a busy server asks. Raises GraphError if that exceeds the time limit."""
        seconds = float(asked) if asked and asked.strip().isdecimal() else 2.0 ** (tries - 1)
        left = self.timeout - (time.monotonic() - began)
        if seconds > min(_LONGEST_WAIT, left):
            raise GraphError(
                f"The endpoint {self.url} asks to wait {seconds:.0f} s.", "Ask again after that."
            )
        time.sleep(seconds)

    def _redirected(self, url: str, location: str) -> str:
        """Return the target of a redirect. Raises GraphError if it leads to another host."""
        try:
            target = urljoin(url, location)
            place, host = urlsplit(target)[:2], urlsplit(target).hostname or "nowhere"
        except ValueError:  # not a URL
            target, place, host = "", ("", ""), "nowhere"
        if place != urlsplit(url)[:2]:
            raise GraphError(
                f"The endpoint {self.url} redirects to another place, {host}.",
                "Attach that URL itself, if it is meant.",
            )
        return target

    def _status_error(self, status: int, content: bytes) -> GraphError:
        """Return the error of an HTTP status, with the server's text but without secrets."""
        text = content.decode(errors="replace")
        for secret in _secrets():  # a server may repeat what it was sent
            text = text.replace(secret, "***")
        text = without_secrets(" ".join(text.split()))[:160]
        if status in (401, 403):
            return StoreUnavailableError(
                f"The endpoint {self.url} refuses access (HTTP {status}).",
                "Set KGQA_SPARQL_USER and KGQA_SPARQL_PASSWORD, or KGQA_SPARQL_TOKEN.",
            )
        kind = StoreUnavailableError if status in (404, 502, 503, 504) else GraphError
        hint = "Check the path of the URL: most are /sparql or /query." if status == 404 else ""
        return kind(f"The endpoint {self.url} answers HTTP {status}: {text}", hint)

    def close(self) -> None:
        """Close the connection. Closing twice does nothing."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _headers() -> dict[str, str]:
    """Return the request headers, with credentials from the environment. Raises UsageError."""
    import base64

    headers = {
        "Accept": "application/sparql-results+json",
        "Content-Type": "application/x-www-form-urlencoded",
        "User-Agent": f"kgqa/{__version__} (SPARQL)",
    }
    user, password, token = (
        os.environ.get(f"KGQA_SPARQL_{name}") for name in ("USER", "PASSWORD", "TOKEN")
    )
    if token and not re.fullmatch(r"[!-~]+", token.strip()):
        raise UsageError(
            "KGQA_SPARQL_TOKEN holds characters that a token cannot have.",
            "It has letters, digits and signs of ASCII, and no blanks.",
        )
    if token:
        headers["Authorization"] = f"Bearer {token.strip()}"
    elif user:
        code = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
        headers["Authorization"] = f"Basic {code}"
    return headers


def _secrets() -> list[str]:
    """Return the password, the token and the authorization header, to be masked in messages."""
    sent = _headers().get("Authorization", "").rpartition(" ")[2]
    return [secret for secret in (os.environ.get("KGQA_SPARQL_PASSWORD"), sent) if secret]


class _Row(dict[str, Any]):
    """A row of a reply; a variable that the server left out raises GraphError."""

    def __missing__(self, variable: str) -> Any:
        raise GraphError(f"The endpoint gave a row without ?{variable}.", "Ask again.")


def _is_row(row: Any) -> bool:
    """Return whether parsed JSON has the form of a result row."""
    return isinstance(row, dict) and all(
        isinstance(term, dict) and isinstance(term.get("value"), str) for term in row.values()
    )
