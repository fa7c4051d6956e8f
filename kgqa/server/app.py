"""The application: all routes behind one guard.

A connection that sends nothing, or half a request, is closed, so that none can use all up.
"""

from __future__ import annotations

import asyncio
import resource
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from kgqa.errors import KgqaError
from kgqa.server.api import PUBLIC, Api
from kgqa.server.chat import chat_routes
from kgqa.server.guard import Guard, Keys
from kgqa.server.http import broken, failed, refused
from kgqa.server.mcp import mcp_server
from kgqa.server.metrics import Metrics, Observed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

    from kgqa.server.options import ServeOptions
    from kgqa.server.sessions import Sessions

REQUEST_SECONDS = 20.0  # in which the head of a request must have come, or an answer be read
_SPARE_FILES = 64  # for models, stores and logs


class Connection(H11Protocol):
    """A uvicorn connection that closes without a request; of too many the longest idle closes."""

    most: ClassVar[int] = 512

    @classmethod
    def limited_to(cls, most: int) -> type[Connection]:
        """Return the protocol class, limited to ``most`` connections."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        fewer = max(8, files // 2 - _SPARE_FILES)
        return type(cls.__name__, (cls,), {"most": min(most, fewer)})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection, close the idlest of too many, and watch for a request."""
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        held = [
            connection
            for connection in self.connections
            if isinstance(connection, Connection) and connection.is_open
        ]
        if len(held) > self.most:
            waiting = [connection for connection in held if connection.idle]
            min(
                waiting, key=lambda connection: connection._idle_since, default=self
            ).transport.abort()
        self._watch()

    def on_response_complete(self) -> None:
        """Count the time without a request from the end of an answer."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    @property
    def is_open(self) -> bool:
        """Whether the connection is not closing."""
        return not self.transport.is_closing()

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        """Close the connection if no request has come in time."""
        if not self.is_open:
            return
        now = self.loop.time()
        if not self.idle and not self.flow.write_paused:
            self._idle_since = now
        elif now - self._idle_since > REQUEST_SECONDS:
            self.transport.abort()
            return
        self.loop.call_later(REQUEST_SECONDS / 4, self._watch)


def make_app(sessions: Sessions, options: ServeOptions, keys: Keys) -> Starlette:
    """Build the Starlette application; ``keys``: the accepted API keys."""
    mcp = mcp_server(sessions)
    http = mcp.streamable_http_app(
        max_request_body_size=options.max_body,
        stateless_http=True,  # nothing to keep for a client that never comes back
        # host and origin are the guard's business
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    # a GET would be a stream on which nothing ever comes, and hold its connection without end
    http_routes = [
        Route("/mcp", route.endpoint, methods=["POST"])
        for route in http.routes
        if isinstance(route, Route) and route.path == "/mcp"
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        """Start the sessions with the application, and stop them with it."""
        sessions.start()
        async with mcp.session_manager.run():
            yield
        await asyncio.to_thread(sessions.stop)

    metrics = Metrics(sessions)
    routes = [*Api(sessions).routes(), *chat_routes(sessions), *http_routes]
    routes.append(Route("/metrics", metrics.show, methods=["GET"]))
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            KgqaError: failed,
            HTTPException: refused,
            Exception: broken,
        },
    )

    def guarded(inner: ASGIApp) -> ASGIApp:
        """Wrap an application in the guard."""
        return Guard(inner, options, keys, PUBLIC)

    paths = {getattr(route, "path", "") for route in routes}
    app.add_middleware(guarded)
    app.add_middleware(lambda inner: Observed(inner, metrics, options.access_log, paths))
    return app
