"""What every request passes before it is served: host, origin, key, form and size of the body.

The Host header must be one that this server is known by, so that no page can reach it through a
name that it points here (DNS rebinding); an Origin must be the server's own, so that no other site
can post. The page's files are public; all that reads a graph needs the key, if there is one.
"""

from __future__ import annotations

import ipaddress
import logging
import secrets
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

from kgqa.errors import KgqaError, UsageError
from kgqa.files import read_settings, stamp_of
from kgqa.permissions import readable_note
from kgqa.registry import Options, option, validated
from kgqa.server.faults import RefusedError, error_json, status_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from kgqa.server.options import ServeOptions


_LOG = logging.getLogger("kgqa.server")


class Client(Options):
    """A key of the file of keys, by the name of its table."""

    key: str = option(..., "What the client sends.", min_length=16)
    name: str = option("", "The name in the log and in metrics.")
    kgs: tuple[str, ...] = option((), "The KGs that it opens; all if none is named.")
    questions: int | None = option(
        None, "Questions at a time, waiting ones included; and as many look-ups and plans.", ge=1
    )
    per_minute: int | None = option(
        None, "Questions a minute; and twenty times as many look-ups and plans.", ge=1
    )

    def opens(self, kg: str) -> bool:
        """Return whether the client may access a KG; one that lists no KGs may access all."""
        return not self.kgs or kg in self.kgs

    @property
    def opens_all(self) -> bool:
        """Whether the client may access every KG, and therefore the server's own state."""
        return not self.kgs


OWN = "KGQA_API_KEY"  # the name of the client whose key is the server's own
ANYBODY = Client(key="-" * 16)
NOBODY = ANYBODY.model_copy(update={"kgs": ("",)})  # on public paths, where others need a key
asking: ContextVar[Client] = ContextVar("asking", default=ANYBODY)
"""The client whose request is being served."""


class Keys:
    """The API keys: ``key``, which opens every KG, and those of the TOML file ``file``.

    The file is read again when it changes, so that a removed or replaced key is refused from the
    next request on; while the file is unreadable, all its keys are refused. Raises UsageError if it
    is unreadable at first.
    """

    def __init__(self, key: str | None = None, file: str | Path | None = None) -> None:
        self._own = [ANYBODY.model_copy(update={"key": key, "name": OWN})] if key else []
        self._file = Path(file).expanduser() if file is not None else None
        self._stamp = stamp_of(self._file) if self._file else None
        self._listed = _read_clients(self._file, key) if self._file else []

    @property
    def clients(self) -> list[Client]:
        """The clients whose keys are accepted now; the file of keys is read again if it changed.

        A malformed file is logged, and its keys are not accepted.
        """
        if self._file and (stamp := stamp_of(self._file)) != self._stamp:
            self._stamp, self._listed = stamp, []
            try:
                self._listed = _read_clients(self._file, *(client.key for client in self._own))
                _LOG.info("The file of keys %s has changed, and was read.", self._file)
            except UsageError as error:
                _LOG.error("%s Until it is mended its keys open nothing.", error)
        return [*self._own, *self._listed]

    def client(self, given: str) -> Client | None:
        """Return the client of a key, None if unknown; without keys any client is accepted.

        ``given``: the key as decoded from the header as Latin-1; a client may send a non-ASCII key
        as UTF-8 or as Latin-1.
        """
        clients = self.clients
        match = None if clients or self._file else ANYBODY
        sent = given.encode("latin-1", "replace")
        for client in clients:  # all of them, so that time says nothing
            for encoding in ("utf-8", "latin-1"):
                if secrets.compare_digest(sent, client.key.encode(encoding, "backslashreplace")):
                    match = client
        return match


def _read_clients(file: Path, own: str | None = None) -> list[Client]:
    """Read the clients of a file of keys, and check that no two have one key.

    ``own``: the server's own key, which none of them may have. Raises UsageError.
    """
    form = 'It has tables such as [alice], each with key = "…".'
    try:
        tables = read_settings(file)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not TOML"
        raise UsageError(f"The file of keys {file} cannot be read: {why}.", form) from None
    if not (tables and isinstance(tables, dict)) or not all(
        isinstance(table, dict) for table in tables.values()
    ):
        raise UsageError(f"The file of keys {file} has no table for each client.", form)
    clients: list[Client] = []
    for name, table in tables.items():
        if name in (OWN, ""):  # others' names: what is counted for one would be for both
            raise UsageError(f"No client in the file of keys {file} may be called {name!r}.", form)
        try:
            clients.append(validated(Client, {**table, "name": name}, f"the client {name}"))
        except KgqaError:  # its message may have the key
            known = ", ".join(field for field in Client.model_fields if field != "name")
            raise UsageError(
                f"The client {name} in the file of keys {file} is malformed.",
                f"A client has: {known}; a key has 16 characters or more.",
            ) from None
    if len({client.key for client in clients}) < len(clients):
        raise UsageError(f"Two clients in the file of keys {file} have the same key.")
    if own in {client.key for client in clients}:
        raise UsageError(f"A client in the file of keys {file} has the key of {OWN}.")
    if note := readable_note(file):
        _LOG.warning("%s Everybody who reads it can ask as its clients: chmod 600 it.", note)
    return clients


LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Guard:
    """The middleware that checks every request; the paths ``public`` need no key."""

    def __init__(
        self, app: ASGIApp, options: ServeOptions, keys: Keys, public: Collection[str]
    ) -> None:
        self._app = app
        self._hosts = {*LOOPBACK, options.host.casefold()} | {
            name.casefold() for name in options.allowed_host
        }
        self._max_body = options.max_body
        self._keys = keys
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then serve or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        size = 0

        async def sized() -> Message:
            """Receive a part of the body. Raises RefusedError if the body is too large."""
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_body:
                raise self._too_large()
            return message

        async def send_safe(message: Message) -> None:
            """Send a message, with security headers added to a response's start."""
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            self._check(scope)
        except KgqaError as error:
            response = JSONResponse(error_json(error), status_of(error))
            response.headers["connection"] = "close"  # its body is not read
            if status_of(error) == 401:
                response.headers["www-authenticate"] = "Bearer"
            await response(scope, receive, send_safe)
            return
        await self._app(scope, sized, send_safe)

    def _check(self, scope: Scope) -> None:
        """Check host, origin, key and content type. Raises RefusedError."""
        headers, path = Headers(scope=scope), scope["path"]
        host = headers.get("host", "")
        if not self._is_own_host(host):
            raise RefusedError(
                421,
                f"This server is not known as '{host[:80]}'.",
                "Start it with that name: kgqa serve --allowed-host NAME.",
            )
        origin = headers.get("origin")
        foreign = origin is not None and _host_and_port(origin) != host.casefold()
        crossed = headers.get("sec-fetch-site") == "cross-site" and path not in self._public
        if foreign or crossed:
            raise RefusedError(403, "Requests from other sites are refused.")
        client = self._keys.client(_key(headers)) or (NOBODY if path in self._public else None)
        if client is None:
            raise RefusedError(
                401,
                "This server asks for an API key.",
                "Send it as 'Authorization: Bearer KEY'.",
            )
        asking.set(client)
        if "transfer-encoding" in headers and "content-length" in headers:
            # two servers that read it differently would see two requests (RFC 9112, section 6.1)
            raise RefusedError(400, "A body has a length or is sent in chunks, not both.")
        if scope["method"] == "POST":
            if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                raise RefusedError(
                    415, "The body must be JSON.", "Send 'Content-Type: application/json'."
                )
            length = headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > self._max_body:
                raise self._too_large()

    def _is_own_host(self, host: str) -> bool:
        """Return whether a Host header is a name of this server, or an IP address."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)  # an address cannot be pointed elsewhere
        except ValueError:
            return False
        return True

    def _too_large(self) -> RefusedError:
        """Return the error of a body that is too large."""
        return RefusedError(413, f"The body is larger than {self._max_body:,} bytes.")


def _host_and_port(origin: str) -> str | None:
    """Return the host and port of an origin, None if it is malformed."""
    try:
        return urlsplit(origin).netloc.casefold()
    except ValueError:
        return None


def _key(headers: Headers) -> str:
    """Return the key in a request's headers, "" if none."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return (given if scheme.casefold() == "bearer" else headers.get("x-api-key", "")).strip()
