"""The endpoints: what each takes and gives, and the OpenAPI document that is made of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from kgqa.api.approved import approve
from kgqa.registry import METHODS
from kgqa.server import forms, shapes
from kgqa.server.forms import AskForm
from kgqa.server.views import path_page
from kgqa.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.api import KG

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
    """A path: its form is the body of a POST and the query of a GET, and its reply has a shape.

    What OpenAI describes has neither here. ``media``: of a reply. ``work``: of an endpoint that
    reads a KG by its form.
    """

    path: str
    verbs: Verbs
    summary: str
    form: type[Any] | None = None
    gives: type[BaseModel] | None = None
    media: str = "application/json"
    work: Callable[[KG, Any], Any] | None = None


def _kept(kg: KG, form: forms.ApprovedForm) -> dict[str, int]:
    line = form.question, form.topic_entities, form.answers, form.plan
    return {"kept": approve(kg.folder, *line, right=form.right)}


READ = (
    Endpoint(
        "/api/link", ("GET", "POST"), "Find what a question may be about.",
        forms.LinkForm, shapes.Linked, work=lambda kg, form: kg.linked(form.question, form.limit),
    ),
    Endpoint(
        "/api/paths", ("GET", "POST"), "List the paths out of an entity.",
        forms.PathsForm, shapes.PathPage, work=path_page,
    ),
    Endpoint(
        "/api/check", ("GET", "POST"), "Look a statement up in the graph.",
        forms.CheckForm, shapes.Checked, work=lambda kg, form: kg.check(form.statement).to_dict(),
    ),
    Endpoint(
        "/api/entities", ("GET",), "Suggest entities.",
        forms.EntitiesForm, shapes.Suggestions,
        work=lambda kg, form: {"entities": kg.suggest(form.prefix, form.limit)},
    ),
    Endpoint(
        "/api/examples", ("GET",), "Return questions to begin with.",
        forms.KgForm, shapes.Examples, work=lambda kg, _: {"questions": kg.examples()},
    ),
    Endpoint(
        "/api/approved", ("POST",), "Keep a question with its judged answers.",
        forms.ApprovedForm, shapes.Kept, work=_kept,
    ),
    Endpoint(
        "/api/schema", ("GET",), "Describe a KG.",
        forms.SchemaForm, shapes.Described, work=lambda kg, form: kg.about(form.most),
    ),
    Endpoint(
        "/api/query", ("POST",), "Run a plan.", forms.QueryForm, shapes.Rows,
        work=lambda kg, form: kg.query(form.plan, rows=form.rows).to_dict(form.facts),
    ),
)  # fmt: skip
"""Those that read a KG, all in one way."""

_OTHERS = (
    Endpoint("/api/ask", ("POST",), "Answer a question.", AskForm, shapes.Answered),
    Endpoint(
        "/api/approved", ("GET",), "Return the judged questions, as JSON lines.",
        forms.JudgedForm, media="application/jsonl",
    ),
    Endpoint("/api/kgs", ("GET",), "List KGs and methods.", gives=shapes.Served),
    Endpoint(
        "/api/status", ("GET",), "Say what is loaded, and which indexes fit.", gives=shapes.Status
    ),
    Endpoint("/v1/models", ("GET",), "List a model for each KG and method (OpenAI)."),
    Endpoint("/v1/models/{model}", ("GET",), "Describe a model (OpenAI)."),
    Endpoint(
        "/v1/chat/completions", ("POST",),
        "Answer the last message (OpenAI); `kgqa` has the method's options and the whole answer.",
    ),
    Endpoint("/health", ("GET",), "Say that the server runs.", gives=shapes.Health),
    Endpoint("/ready", ("GET",), "Say whether models are loaded.", gives=shapes.State),
    Endpoint(
        "/metrics", ("GET",), "Count what the server does, for Prometheus.", media="text/plain"
    ),
)  # fmt: skip


@cache
def description() -> dict[str, Any]:
    """Return the OpenAPI document."""
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
    """Return every option of the methods that may be asked for, with what it belongs to."""
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
    return {"$ref": _REF.format(model=model.__name__)} if model else {}
