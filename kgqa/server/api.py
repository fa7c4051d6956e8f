"""The routes of the page and of the HTTP API: each one's form, and what it gives."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from kgqa.api.approved import approved
from kgqa.registry import validated
from kgqa.server.endpoints import READ, description
from kgqa.server.faults import RefusedError, error_json
from kgqa.server.forms import AskForm, JudgedForm
from kgqa.server.http import answered, as_json, check_size, fields, with_signs_of_life
from kgqa.server.views import methods
from kgqa.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from kgqa.server.endpoints import Endpoint
    from kgqa.server.sessions import Event, Sessions

_STATUS_SECONDS = 30.0  # for which what there is on disk is believed
_PAGE = {
    "/": ("index.html", "text/html"),
    "/about": ("about.html", "text/html"),
    **{
        f"/{name}.js": (f"{name}.js", "text/javascript")
        for name in ("about", "answer", "app", "common", "draw", "entity")
    },
    "/style.css": ("style.css", "text/css"),
    "/favicon.svg": ("favicon.svg", "image/svg+xml"),
}
PUBLIC = frozenset({*_PAGE, "/health", "/ready", "/favicon.ico"})


class Api:
    """The routes of the page and of ``/api``."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self._status: tuple[float, dict[str, Any]] | None = None
        self._status_lock = asyncio.Lock()

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            *(Route(path, _page, methods=["GET"]) for path in _PAGE),
            Route("/favicon.ico", _page, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/ready", self.ready, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
            Route("/api/kgs", self.kgs, methods=["GET"]),
            Route("/api/status", self.status, methods=["GET"]),
            Route("/api/ask", self.ask, methods=["POST"]),
            Route("/api/approved", self.approved, methods=["GET"]),
            *(Route(each.path, partial(self.read, each), methods=[*each.verbs]) for each in READ),
        ]

    async def health(self, _: Request) -> Response:
        """Say that the server runs."""
        return JSONResponse({"status": "ok", "version": __version__})

    async def ready(self, _: Request) -> Response:
        """Say whether models are loaded, and what is being done if not."""
        state = self._state()
        return JSONResponse(state, 200 if state["ready"] else 503)

    def _state(self) -> dict[str, Any]:
        sessions = self.sessions
        fault = error_json(sessions.fault) if sessions.fault else {}
        content = {
            "ready": sessions.ready and not sessions.stopping,
            "doing": sessions.progress.doing,
            **sessions.counts,
        }
        return content | fault

    async def openapi(self, _: Request) -> Response:
        """Describe the API."""
        return JSONResponse(description())

    async def kgs(self, _: Request) -> Response:
        """List the KGs and the methods that a question may name, and say what ``/ready`` does."""
        infos = await asyncio.to_thread(self.sessions.kgs)
        kgs = [asdict(info) for info in infos.values()]
        return JSONResponse({"kgs": kgs, "methods": methods(), "state": self._state()})

    async def status(self, _: Request) -> Response:
        """Say what ``kgqa status`` does, of the served KGs."""
        async with self._status_lock:
            if self._status is None or time.monotonic() - self._status[0] > _STATUS_SECONDS:
                report = await asyncio.to_thread(self.sessions.status)
                self._status = time.monotonic(), report
        return JSONResponse(self._status[1] | self.sessions.counts)

    async def ask(self, request: Request) -> Response:
        """Answer a question, as one object or as a stream of what happens."""
        form, options = AskForm.of(await fields(request))
        stream = form.stream or "text/event-stream" in request.headers.get("accept", "")
        waiting = await self.sessions.ask(
            form.question,
            form.kg,
            form.method,
            form.entities,
            form.choices,
            options,
            after=[earlier.turn for earlier in form.after],
            watched=stream,
        )
        if stream:
            events = with_signs_of_life(self.sessions.events(waiting))
            return StreamingResponse(_lines(events), media_type="text/event-stream")
        return as_json(await answered(request, self.sessions.answer(waiting)))

    async def read(self, endpoint: Endpoint, request: Request) -> Response:
        """Give what an endpoint reads from a KG."""
        kind: Any = endpoint.form  # which all have that are read so
        work: Any = endpoint.work
        form = validated(kind, await fields(request), endpoint.path)
        return as_json(await self.sessions.read(form.kg, lambda kg: work(kg, form)))

    async def approved(self, request: Request) -> Response:
        """Return the judged questions as JSON lines; `kgqa learn` and `eval` read right ones."""
        form: JudgedForm = validated(JudgedForm, await fields(request), "/api/approved")
        lines = await self.sessions.read(form.kg, lambda kg: approved(kg.folder, right=form.right))
        return Response(lines, media_type="application/jsonl")


async def _lines(events: AsyncIterator[Event | None]) -> AsyncIterator[str]:
    try:
        async for event in events:
            if event is None:
                yield ": still here\n\n"
            else:
                text = json.dumps(event[1])
                check_size(len(text))
                yield f"event: {event[0]}\ndata: {text}\n\n"
    except RefusedError as error:
        yield f"event: error\ndata: {json.dumps(error_json(error))}\n\n"
    finally:
        await events.aclose()  # type: ignore[attr-defined]


async def _page(request: Request) -> Response:
    name, kind = _PAGE.get(request.url.path, _PAGE["/favicon.svg"])
    content = files("kgqa.server").joinpath("page", name).read_bytes()
    return Response(content, media_type=kind, headers={"cache-control": "no-cache"})
