"""The server as a process: it listens, says where, and ends on a signal."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from kgqa.config import is_loopback
from kgqa.errors import UsageError
from kgqa.server.progress import log_to_stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from kgqa.api import Home
    from kgqa.server.options import ServeOptions

_LOG = logging.getLogger("kgqa.server")
_BACKLOG = 128  # connections that are accepted before the first of them is counted


def serve(
    home: Callable[..., Home],
    options: ServeOptions,
    kgs: Sequence[str] = (),
    key: str | None = None,
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until a signal arrives; ``announce`` is called with the URL once listening.

    ``home`` builds the home of a KG (None: of all); ``key``: the API key. Raises UsageError if it
    cannot listen there, GraphError if a KG does not exist.
    """
    if not key and options.keys is None and not is_loopback(options.host):
        raise UsageError(
            f"--host {options.host} exposes the server, and no API key is set.",
            "Set KGQA_API_KEY to a secret of your own, name a file of `keys`, or leave out `host`.",
        )
    with _listen(options.host, options.port) as listening:  # before anything slow is imported
        _run(listening, home, options, kgs, key, announce)


def _run(
    listening: socket.socket,
    home: Callable[..., Home],
    options: ServeOptions,
    kgs: Sequence[str],
    key: str | None,
    announce: Callable[[str], None],
) -> None:
    """Run the application on a listening socket until it is stopped."""
    import uvicorn

    from kgqa.server.app import Connection, make_app
    from kgqa.server.guard import Keys
    from kgqa.server.metrics import log_access
    from kgqa.server.sessions import Sessions
    from kgqa.server.worker import Workers

    def workers(first: str | None) -> Workers:
        """Return the manager of worker processes."""
        return Workers(home, options, first)

    log_to_stderr()
    log_access()
    keys = Keys(key, options.keys)
    sessions = Sessions(home, options, kgs, workers if options.worker_count > 1 else None)
    sessions.check()
    host, port = listening.getsockname()[:2]

    class Server(uvicorn.Server):
        """A uvicorn server that refuses questions on a signal, and announces its URL."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Refuse new questions, then stop."""
            sessions.refuse()
            super().handle_exit(sig, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            """Start, and announce the URL."""
            await super().startup(sockets)
            shown = f"[{host}]" if ":" in host else host
            announce(f"http://{shown}:{port}/")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Stop, and log that."""
            await super().shutdown(sockets)
            _LOG.info("kgqa has stopped.")

    config = uvicorn.Config(
        make_app(sessions, options, keys),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=Connection.limited_to(options.max_connections),
        ws="none",
        backlog=_BACKLOG,
        timeout_graceful_shutdown=options.end_seconds,
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again when it has ended
        Server(config).run(sockets=[listening])


def serve_stdio(home: Callable[..., Home], options: ServeOptions, kgs: Sequence[str] = ()) -> None:
    """Serve MCP over standard input and output until the client closes them."""
    from kgqa.server.mcp import mcp_server
    from kgqa.server.sessions import Sessions

    log_to_stderr()
    sessions = Sessions(home, options, kgs)
    sessions.check()
    server = mcp_server(sessions)

    async def run() -> None:
        """Start the sessions, and serve until the input ends."""
        sessions.start()
        try:
            await server.run_stdio_async()
        finally:
            await asyncio.to_thread(sessions.stop)

    asyncio.run(run())


def _listen(host: str, port: int) -> socket.socket:
    """Open a listening socket. Raises UsageError."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise UsageError(
            f"The server cannot listen on {host}:{port}: {error.strerror}.",
            "Another server may run there: set `port` to another one, or to 0 for a free one.",
        ) from None
