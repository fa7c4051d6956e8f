"""The application: all routes behind one guard."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from kgqa.errors import KgqaError
from kgqa.server.api import PUBLIC, Api
from kgqa.server.chat import chat_routes
from kgqa.server.guard import Guard
from kgqa.server.http import broken, failed, refused
from kgqa.server.mcp import mcp_server
from kgqa.server.observed import Metrics, Observed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

    from kgqa.server.clients import Keys
    from kgqa.server.options import ServeOptions
    from kgqa.server.sessions import Sessions


def make_app(sessions: Sessions, options: ServeOptions, keys: Keys) -> Starlette:
    """Return the application; ``keys``: those that clients must send one of."""
    mcp = mcp_server(sessions)
    http = mcp.streamable_http_app(
        max_request_body_size=options.max_body,
        stateless_http=True,  # nothing to keep for a client that never comes back
        # host and origin are the guard's business
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    http_routes = [route for route in http.routes if getattr(route, "path", "") == "/mcp"]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
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
        return Guard(inner, options, keys, PUBLIC)

    paths = {getattr(route, "path", "") for route in routes}
    app.add_middleware(guarded)
    app.add_middleware(lambda inner: Observed(inner, metrics, options.access_log, paths))
    return app
