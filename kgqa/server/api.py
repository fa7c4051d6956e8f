"""The page and the HTTP API: each endpoint's form, what it gives, and the OpenAPI document."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from kgqa.api.feedback import approve, approved
from kgqa.errors import KgqaError
from kgqa.registry import METHODS, validated
from kgqa.server import forms
from kgqa.server.faults import RefusedError, error_json
from kgqa.server.forms import AskForm, JudgedForm
from kgqa.server.guard import asking
from kgqa.server.http import answered, as_json, check_size, fields, with_signs_of_life
from kgqa.server.views import methods, path_page, visible_status
from kgqa.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from kgqa.api import KG
    from kgqa.server.sessions import Event, Sessions

_REF = "#/components/schemas/{model}"
Verbs: TypeAlias = tuple[Literal["GET", "POST"], ...]


class _Error(BaseModel):
    message: str
    hint: str
    type: str
    code: int


class ErrorBody(BaseModel):
    """What was wrong, where, and what to do next."""

    error: _Error


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path with its request form (POST body or GET query) and the shape of its reply.

    Endpoints that OpenAI describes have neither here. ``media``: the media type of the reply.
    ``work``: reads a KG by the form, for an endpoint that does only that.
    """

    path: str
    verbs: Verbs
    summary: str
    form: type[Any] | None = None
    gives: type[BaseModel] | None = None
    media: str = "application/json"
    work: Callable[[KG, Any], Any] | None = None


def _save_judged(kg: KG, form: forms.ApprovedForm) -> dict[str, int]:
    """Save a judged question in the KG's folder; return how many are saved."""
    line = form.question, form.topic_entities, form.answers, form.plan
    return {"kept": approve(kg.folder, *line, right=form.right)}


READ = (
    Endpoint(
        "/api/link", ("GET", "POST"), "Find what a question may be about.",
        forms.LinkForm, forms.Linked, work=lambda kg, form: kg.linked(form.question, form.limit),
    ),
    Endpoint(
        "/api/paths", ("GET", "POST"), "List the paths out of an entity.",
        forms.PathsForm, forms.PathPage, work=path_page,
    ),
    Endpoint(
        "/api/check", ("GET", "POST"), "Look a statement up in the graph.",
        forms.CheckForm, forms.Checked, work=lambda kg, form: kg.check(form.statement).to_dict(),
    ),
    Endpoint(
        "/api/entities", ("GET",), "Suggest entities.",
        forms.EntitiesForm, forms.Suggestions,
        work=lambda kg, form: {"entities": kg.suggest(form.prefix, form.limit)},
    ),
    Endpoint(
        "/api/examples", ("GET",), "Return questions to begin with.",
        forms.KgForm, forms.Examples, work=lambda kg, _: {"questions": kg.examples()},
    ),
    Endpoint(
        "/api/approved", ("POST",), "Keep a question with its judged answers.",
        forms.ApprovedForm, forms.Kept, work=_save_judged,
    ),
    Endpoint(
        "/api/schema", ("GET",), "Describe a KG.",
        forms.SchemaForm, forms.Described, work=lambda kg, form: kg.about(form.most),
    ),
    Endpoint(
        "/api/query", ("POST",), "Run a plan.", forms.QueryForm, forms.Rows,
        work=lambda kg, form: kg.query(form.plan, rows=form.rows).to_dict(form.facts),
    ),
)  # fmt: skip
"""Those that read a KG, all in one way."""

_OTHERS = (
    Endpoint("/api/ask", ("POST",), "Answer a question.", AskForm, forms.Answered),
    Endpoint(
        "/api/approved", ("GET",), "Return the judged questions, as JSON lines.",
        forms.JudgedForm, media="application/jsonl",
    ),
    Endpoint("/api/kgs", ("GET",), "List KGs and methods.", gives=forms.Served),
    Endpoint(
        "/api/status", ("GET",), "Say what is loaded, and which indexes fit.", gives=forms.Status
    ),
    Endpoint("/v1/models", ("GET",), "List a model for each KG and method (OpenAI)."),
    Endpoint("/v1/models/{model}", ("GET",), "Describe a model (OpenAI)."),
    Endpoint(
        "/v1/chat/completions", ("POST",),
        "Answer the last message (OpenAI); `kgqa` has the method's options and the whole answer.",
    ),
    Endpoint("/health", ("GET",), "Say that the server runs.", gives=forms.Health),
    Endpoint("/ready", ("GET",), "Say whether models are loaded.", gives=forms.State),
    Endpoint(
        "/metrics", ("GET",), "Count what the server does, for Prometheus.", media="text/plain"
    ),
)  # fmt: skip


@cache
def description() -> dict[str, Any]:
    """Return the OpenAPI document of the server."""
    endpoints = (*READ, *_OTHERS)
    models: list[Any] = [ErrorBody, *(each.gives for each in endpoints if each.gives)]
    models += [each.form for each in endpoints if each.form and "POST" in each.verbs]
    _, schemas = models_json_schema([(model, "validation") for model in models], ref_template=_REF)
    components = schemas["$defs"]
    components["AskForm"]["additionalProperties"] = False
    components["AskForm"]["properties"] |= _method_options()
    paths: dict[str, Any] = {}
    for each in endpoints:
        for verb in map(str.lower, each.verbs):
            paths.setdefault(each.path, {})[verb] = _operation(each, verb)
    paths["/api/ask"]["post"]["responses"]["200"]["content"]["text/event-stream"] = {
        "schema": {
            "type": "string",
            "description": "Events queued, loading, linked, searching, paths, then answer or error;"
            " each with a JSON object.",
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kgqa",
            "version": __version__,
            "description": "Answers from a knowledge graph, each with the path of facts behind it.",
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
        "paths": paths,
    }


def _method_options() -> dict[str, Any]:
    """Return every option of the offered methods as JSON schema, with the methods that have it."""
    options: dict[str, Any] = {}
    of: dict[str, list[str]] = {}
    for entry in METHODS.table:
        model = entry.options_model()
        models = [model, *(e.options_model() for part in model.parts.values() for e in part.table)]
        for each in models:
            for name, schema in each.model_json_schema().get("properties", {}).items():
                if not name.endswith("_options"):
                    options.setdefault(name, schema)
                    of.setdefault(name, []).append(entry.name)
    for name, schema in options.items():
        belongs = ", ".join(dict.fromkeys(of[name]))
        schema["description"] = f"{schema.get('description', '')} Of: {belongs}.".lstrip()
    return {name: schema for name, schema in options.items() if name not in AskForm.model_fields}


def _operation(endpoint: Endpoint, verb: str) -> dict[str, Any]:
    """Return the OpenAPI operation of an endpoint for an HTTP verb."""
    json = endpoint.media == "application/json"
    schema = _ref(endpoint.gives) or {"type": "object" if json else "string"}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{verb}{re.sub('[^a-z0-9]+', '_', endpoint.path)}".rstrip("_"),
        "responses": {
            "200": {"description": "Done.", "content": {endpoint.media: {"schema": schema}}},
            "default": {
                "description": "An error.",
                "content": {"application/json": {"schema": _ref(ErrorBody)}},
            },
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    if verb == "post":
        body = {"schema": _ref(endpoint.form) or {"type": "object"}}
        operation["requestBody"] = {"required": True, "content": {"application/json": body}}
    elif endpoint.form is not None:
        known = endpoint.form.model_json_schema(ref_template=_REF)
        parameters += [
            {
                "name": name,
                "in": "query",
                "required": name in known.get("required", []),
                "schema": field,
                "description": field.get("description", ""),
            }
            for name, field in known["properties"].items()
        ]
    return operation | ({"parameters": parameters} if parameters else {})


def _ref(model: type[BaseModel] | None) -> dict[str, str]:
    """Return a JSON reference to a model's schema, {} for None."""
    return {"$ref": _REF.format(model=model.__name__)} if model else {}


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
        """Keep the sessions."""
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
        """Report whether models are loaded and, if not, the running task."""
        state = self._state()
        return JSONResponse(state, 200 if state["ready"] else 503)

    def _state(self) -> dict[str, Any]:
        """Return whether models are loaded, the running task, and a fault if any.

        A client that may not access every KG gets no names of KGs.
        """
        sessions = self.sessions
        fault = error_json(sessions.fault) if sessions.fault else {}
        doing = sessions.progress.doing
        if not asking.get().opens_all:  # both may name a KG that the client may not see
            doing = doing and "loading"
            fault = fault and error_json(KgqaError("The models could not be loaded."))
        content = {
            "ready": sessions.ready and not sessions.stopping,
            "doing": doing,
            **sessions.counts,
        }
        return content | fault

    async def openapi(self, _: Request) -> Response:
        """Describe the API."""
        return JSONResponse(description())

    async def kgs(self, _: Request) -> Response:
        """List the KGs and the methods that a question may name, and say what ``/ready`` does."""
        infos = await self.sessions.in_time(self.sessions.kgs)
        kgs = [asdict(info) for info in infos.values()]
        return JSONResponse({"kgs": kgs, "methods": methods(), "state": self._state()})

    async def status(self, _: Request) -> Response:
        """Return the JSON of ``kgqa status`` for the served KGs."""
        async with self._status_lock:
            if self._status is None or time.monotonic() - self._status[0] > _STATUS_SECONDS:
                report = await self.sessions.in_time(self.sessions.status)
                self._status = time.monotonic(), report
        served = await self.sessions.in_time(self.sessions.kgs)
        return JSONResponse(visible_status(self._status[1], served) | self.sessions.counts)

    async def ask(self, request: Request) -> Response:
        """Answer a question, as one object or as a stream of events."""
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
            reading=form.reading,
            watched=stream,
        )
        if stream:
            events = with_signs_of_life(self.sessions.events(waiting))
            return StreamingResponse(_lines(events), media_type="text/event-stream")
        return as_json(await answered(request, self.sessions.answer(waiting)))

    async def read(self, endpoint: Endpoint, request: Request) -> Response:
        """Run a reading endpoint's work on the KG; return its reply, unless the client leaves."""
        kind: Any = endpoint.form  # which all have that are read so
        work: Any = endpoint.work
        form = validated(kind, await fields(request), endpoint.path)
        await request.body()  # after which all that can come is that the client goes away
        plan = endpoint.path == "/api/query"
        reading = self.sessions.read(form.kg, lambda kg: work(kg, form), plan=plan)
        return as_json(await answered(request, reading))

    async def approved(self, request: Request) -> Response:
        """Return the judged questions with right answers, or with wrong ones, as JSON lines."""
        form: JudgedForm = validated(JudgedForm, await fields(request), "/api/approved")
        lines = await self.sessions.read(form.kg, lambda kg: approved(kg.folder, right=form.right))
        return Response(lines, media_type="application/jsonl")


async def _lines(events: AsyncIterator[Event | None]) -> AsyncIterator[str]:
    """Format events as lines of an event stream, with comments that keep it alive."""
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
    """Return the page's HTML."""
    name, kind = _PAGE.get(request.url.path, _PAGE["/favicon.svg"])
    content = files("kgqa.server").joinpath("page", name).read_bytes()
    return Response(content, media_type=kind, headers={"cache-control": "no-cache"})
