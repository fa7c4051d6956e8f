"""The description of the API, made of the same models that validate requests."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from kgqa.registry import METHODS
from kgqa.server.forms import (
    ApprovedForm,
    AskForm,
    CheckForm,
    EntitiesForm,
    JudgedForm,
    KgForm,
    LinkForm,
    PathsForm,
    QueryForm,
    SchemaForm,
)
from kgqa.server.shapes import (
    Answered,
    ChatModel,
    ChatModels,
    ChatReply,
    ChatRequest,
    Checked,
    Described,
    Examples,
    Health,
    Kept,
    Linked,
    PathPage,
    Rows,
    Served,
    State,
    Status,
    Suggestions,
)
from kgqa.version import __version__

if TYPE_CHECKING:
    from kgqa.registry import Options

_REF = "#/components/schemas/{model}"


class _Error(BaseModel):
    message: str
    hint: str
    type: str
    code: int


class ErrorBody(BaseModel):
    """What was wrong, where, and what to do next."""

    error: _Error


@cache
def description() -> dict[str, Any]:
    """Return the OpenAPI document."""
    models: list[Any] = [AskForm, CheckForm, LinkForm, PathsForm, EntitiesForm, QueryForm]
    models += [ApprovedForm, Kept, Examples]
    models += [Answered, Checked, Linked, PathPage, Described, Rows, ErrorBody, Suggestions]
    models += [Served, Status, Health, State, ChatRequest, ChatReply, ChatModel, ChatModels]
    _, schemas = models_json_schema([(model, "validation") for model in models], ref_template=_REF)
    components = schemas["$defs"]
    components["AskForm"]["additionalProperties"] = False
    components["AskForm"]["properties"] |= _method_options()
    ask = _operation("Answer a question.", post=AskForm, gives=Answered)
    ask["responses"]["200"]["content"]["text/event-stream"] = {
        "schema": {
            "type": "string",
            "description": "Events queued, loading, linked, searching, paths, then answer or error;"
            " each with a JSON object.",
        }
    }
    schema: dict[str, Any] = {
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
        "paths": {
            "/api/ask": {"post": ask},
            "/api/link": _both("Find what a question may be about.", LinkForm, Linked),
            "/api/paths": _both("List the paths out of an entity.", PathsForm, PathPage),
            "/api/check": _both("Look a statement up in the graph.", CheckForm, Checked),
            "/api/entities": {
                "get": _operation("Suggest entities.", query=EntitiesForm, gives=Suggestions)
            },
            "/api/examples": {
                "get": _operation("Return questions to begin with.", query=KgForm, gives=Examples)
            },
            "/api/approved": {
                "get": _operation("Return the judged questions, as JSON lines.", query=JudgedForm),
                "post": _operation(
                    "Keep a question with its judged answers.", post=ApprovedForm, gives=Kept
                ),
            },
            "/api/schema": {"get": _operation("Describe a KG.", query=SchemaForm, gives=Described)},
            "/api/query": {"post": _operation("Run a plan.", post=QueryForm, gives=Rows)},
            "/api/kgs": {"get": _operation("List KGs and methods.", gives=Served)},
            "/api/status": {
                "get": _operation("Say what is loaded, and which indexes fit.", gives=Status)
            },
            "/v1/models": {
                "get": _operation("List a model for each KG and method (OpenAI).", gives=ChatModels)
            },
            "/v1/models/{model}": {"get": _operation("Describe a model.", gives=ChatModel)},
            "/v1/chat/completions": {
                "post": _operation(
                    "Answer the last message (OpenAI).", post=ChatRequest, gives=ChatReply
                )
            },
            "/health": {"get": _operation("Say that the server runs.", gives=Health)},
            "/ready": {"get": _operation("Say whether models are loaded.", gives=State)},
            "/metrics": {"get": _operation("Count what the server does, for Prometheus.")},
        },
    }
    for path, operations in schema["paths"].items():
        for verb, operation in operations.items():
            operation["operationId"] = f"{verb}{re.sub('[^a-z0-9]+', '_', path)}".rstrip("_")
    named = schema["paths"]["/v1/models/{model}"]["get"]
    named["parameters"] = [
        {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
    ]
    for path, kind in (("/metrics", "text/plain"), ("/api/approved", "application/jsonl")):
        text = schema["paths"][path]["get"]["responses"]["200"]
        text["content"] = {kind: {"schema": {"type": "string"}}}
    return schema


def _method_options() -> dict[str, Any]:
    """Return every option of the methods that may be asked for, with what it belongs to."""
    paths: dict[str, Any] = {}
    of: dict[str, list[str]] = {}
    for entry in METHODS.table:
        model = entry.options_model()
        models = [model, *(e.options_model() for part in model.parts.values() for e in part.table)]
        for one in models:
            for name, schema in one.model_json_schema().get("properties", {}).items():
                if not name.endswith("_options"):
                    paths.setdefault(name, schema)
                    of.setdefault(name, []).append(entry.name)
    for name, schema in paths.items():
        belongs = ", ".join(dict.fromkeys(of[name]))
        schema["description"] = f"{schema.get('description', '')} Of: {belongs}.".lstrip()
    return {name: schema for name, schema in paths.items() if name not in AskForm.model_fields}


def _both(summary: str, form: type[Options], gives: type[BaseModel]) -> dict[str, Any]:
    return {
        "get": _operation(summary, query=form, gives=gives),
        "post": _operation(summary, post=form, gives=gives),
    }


def _operation(
    summary: str,
    *,
    query: type[Options] | None = None,
    post: type[BaseModel] | None = None,
    gives: type[BaseModel] | None = None,
) -> dict[str, Any]:
    schema: dict[str, Any] = {"$ref": _REF.format(model=gives.__name__)} if gives else {}
    fault = {"schema": {"$ref": _REF.format(model="ErrorBody")}}
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {
            "200": {"description": "Done.", "content": {"application/json": {"schema": schema}}},
            "default": {"description": "An error.", "content": {"application/json": fault}},
        },
    }
    if post is not None:
        body = {"schema": {"$ref": _REF.format(model=post.__name__)}}
        operation["requestBody"] = {"required": True, "content": {"application/json": body}}
    if query is not None:
        known = query.model_json_schema(ref_template=_REF)
        operation["parameters"] = [
            {
                "name": name,
                "in": "query",
                "required": name in known.get("required", []),
                "schema": field,
                "description": field.get("description", ""),
            }
            for name, field in known["properties"].items()
        ]
    return operation
