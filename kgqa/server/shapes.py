"""What the endpoints give, as models: for ``/openapi.json`` and for MCP's output schemas."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class Entity(BaseModel):
    """An entity."""

    id: str
    name: str


class StoredFact(BaseModel):
    """A stored triple, by ids, in stored direction; ``properties``: of a fact that has some."""

    head: str
    predicate: str
    tail: str
    properties: dict[str, Any] | None = None


class Edge(BaseModel):
    """A hop: one stored fact, or the two of a mediator; ``inverse``: walked backward."""

    head: Entity
    relation: str
    tail: Entity
    inverse: bool
    facts: list[StoredFact] = []


class ShownPath(BaseModel):
    """A path, every edge of which was checked in the graph; ``score``: a log-probability."""

    text: str
    score: float | None = None
    edges: list[Edge]


class ShownCondition(BaseModel):
    """What the question asks for beyond the path, in ``asked``, and the edge that says it."""

    asked: str
    text: str
    edges: list[Edge]


class ShownAnswer(BaseModel):
    """An answer; ``paths``: places in the list of paths; ``grounded``: a path ends in it.

    ``types`` and ``properties``: what the graph says of it besides its edges.
    """

    id: str | None
    name: str
    score: float
    grounded: bool
    types: list[str] = []
    properties: dict[str, Any] = {}
    paths: list[int]
    conditions: list[ShownCondition]


class LinkedEntity(Entity):
    """A topic entity, or what a question may be about."""

    score: float


class Answered(BaseModel):
    """The answers to a question; none if the graph does not hold what is asked for."""

    question: str
    method: str
    topic_entities: list[LinkedEntity]
    answers: list[ShownAnswer]
    confidence: float | None
    paths: list[ShownPath]
    notes: list[str]


class PathPage(BaseModel):
    """Some paths out of an entity; ``next_offset`` is null if these are the last."""

    entity: Entity
    paths: list[ShownPath]
    total: int = Field(description="How many there are.")
    next_offset: int | None
    notes: list[str]


class Candidate(LinkedEntity):
    """An entity that a question may be about; ``chosen``: it is taken for a topic entity."""

    mention: str
    edges: int
    chosen: bool


class Linked(BaseModel):
    """The entities that a question may be about, the best first."""

    question: str
    candidates: list[Candidate]


class Checked(BaseModel):
    """Whether a statement is in the graph, each way in which it is; ``missing``: what is not.

    ``near``: what is there instead, if only case, punctuation or signs of names differ.
    """

    statement: str
    found: bool
    missing: str | None
    paths: list[ShownPath]
    near: list[ShownPath] = []


class ServedKg(BaseModel):
    """A KG and its size."""

    name: str
    entities: int
    edges: int


class Kgs(BaseModel):
    """The KGs that are served."""

    kgs: list[ServedKg]


class Described(BaseModel):
    """What a KG holds; ``more``: how many types and relations are not listed."""

    kg: str
    entities: int
    edges: int
    types: list[dict[str, Any]]
    relations: list[dict[str, Any]]
    more: dict[str, int]
    sampled: bool


class Rows(BaseModel):
    """The rows of a plan, each with its facts and with what a number counted."""

    plan: str
    sentence: str
    cypher: str
    pattern: list[dict[str, Any]]
    columns: list[str]
    labels: list[str]
    rows: list[dict[str, Any]]
    tied: list[dict[str, Any]]
    runners_up: list[list[Any]]


class Health(BaseModel):
    """That the server runs."""

    status: str
    version: str


class State(BaseModel):
    """Whether models are loaded, what is being done, and why not; questions by what they do."""

    ready: bool
    doing: str
    waiting: int
    running: int
    error: dict[str, Any] | None = None


class ServedMethod(BaseModel):
    """A method that may be asked for."""

    name: str
    help: str


class Served(BaseModel):
    """The KGs with their records, the methods, and the state of the server."""

    kgs: list[dict[str, Any]]
    methods: list[ServedMethod]
    state: State


class Status(BaseModel):
    """What ``kgqa status --json`` prints, and how many questions wait and run."""

    model_config = {"extra": "allow"}

    kgs: list[dict[str, Any]]
    waiting: int
    running: int


class Suggested(Entity):
    """An entity whose name begins as what was typed."""

    edges: int


class Suggestions(BaseModel):
    """Entities, the best connected first."""

    entities: list[Suggested]


class Examples(BaseModel):
    """Questions to begin with."""

    questions: list[str]


class Kept(BaseModel):
    """How many questions are kept now."""

    kept: int
