"""What requests hold and endpoints give: the models of ``/openapi.json`` and of MCP's schemas.

Forms are in the form of the registries' options, validated by the same function.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from kgqa.api import Turn
from kgqa.api.kg import DEFAULT_METHOD
from kgqa.registry import Direction, Mediators, Options, option, taken

MOST_PATHS = 300_000  # of an entity; one with more is refused
_ENTITY = 1_000  # characters
_STATEMENT = 20_000  # characters, or triples


class KgForm(Options):
    """A KG."""

    kg: str | None = option(None, "The KG's name (default: the only KG).")


class TurnForm(Options):
    """An earlier question as it was answered; ids that the graph does not have are passed over."""

    question: str = option(..., "The question, as the answer has it.", max_length=2_000)
    topic_entities: tuple[str, ...] = option((), "Ids of its topic entities.", max_length=16)
    answers: tuple[str, ...] = option((), "Ids of its answers.", max_length=1_000)

    @property
    def turn(self) -> Turn:
        """The turn that a question may leave things to."""
        return Turn(self.question, self.topic_entities, self.answers)


class AskForm(KgForm):
    """A question; the method's options stand beside these fields."""

    question: str = option(..., "The question.", min_length=1, max_length=2_000)
    method: str = option(DEFAULT_METHOD, "The method.")
    entities: tuple[str, ...] = option(
        (), "Topic entities, by id or name, instead of those that linking finds.", max_length=16
    )
    choices: tuple[str, ...] = option((), "What may be answered, by id or name.", max_length=32)
    after: tuple[TurnForm, ...] = option(
        (),
        "Earlier questions, the latest last, that this one leaves things to: `and his children?`",
        max_length=4,
    )
    reading: int | None = option(
        None, "Which of the `readings` that the answer offered is meant, from 1.", ge=1, le=9
    )
    stream: bool = option(
        False, "Send what happens as server-sent events; `Accept: text/event-stream` does too."
    )

    @classmethod
    def of(cls, given: dict[str, Any]) -> tuple[AskForm, dict[str, Any]]:
        """Return the form, and the options of the method. Raises UsageError."""
        options = dict(given)
        return taken(cls, options, "a request"), options


class JudgedForm(KgForm):
    """Which of the questions that people judged are meant."""

    right: bool = option(True, "Whether the answers are right.")


class ApprovedForm(JudgedForm):
    """A question with the answers that a person judged."""

    question: str = option(..., "As the answer has it.", min_length=1, max_length=2_000)
    topic_entities: tuple[str, ...] = option((), "Their ids.", max_length=16)
    answers: tuple[str, ...] = option(
        ..., "Ids, or names of what has none; empty: it is not in the KG.", max_length=10_000
    )
    plan: str | None = option(None, "The plan that answers it.", max_length=4_000)


class LinkForm(KgForm):
    """A question whose entities are looked for."""

    question: str = option(..., "A question, or a name.", min_length=1, max_length=2_000)
    limit: int = option(10, "Candidates at most.", ge=1, le=100)


class PathsForm(KgForm):
    """An entity whose paths are listed."""

    entity: str = option(..., "An entity, by id or name.", min_length=1, max_length=_ENTITY)
    hops: int = option(2, "Hops at most; 1 gives the neighbours.", ge=1, le=4)
    limit: int = option(50, "Paths at most.", ge=1, le=500)
    offset: int = option(0, "Paths that are passed over.", ge=0)
    direction: Direction | None = option(
        None, "Direction in which edges are followed (default: the KG's)."
    )
    mediators: Mediators = option("collapse", "Whether mediators are collapsed or kept.")


class CheckForm(KgForm):
    """A statement that is looked for in the graph."""

    statement: str | list[Any] | dict[str, Any] = option(
        ...,
        "`head -> relation -> tail` or a longer path, a triple, a list of triples, or a path of "
        "an answer.",
        max_length=_STATEMENT,
    )


class SchemaForm(KgForm):
    """A KG whose schema is described."""

    most: int = option(20, "Types, relations, and properties of each at most.", ge=1, le=1_000)


class QueryForm(KgForm):
    """A plan over the whole graph."""

    plan: str = option(
        ...,
        "`Customer <customer Order | desc count Order | limit 3 | give Customer`.",
        min_length=1,
        max_length=4_000,
    )
    rows: int = option(100, "Rows at most.", ge=1, le=10_000)
    facts: int = option(20, "Facts that are listed for a row at most.", ge=0, le=1_000)


class EntitiesForm(KgForm):
    """The beginning of a name, as it is typed."""

    prefix: str = option(..., "The beginnings of words of a name.", max_length=_ENTITY)
    limit: int = option(8, "Entities at most.", ge=1, le=50)


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


class ShownReading(BaseModel):
    """What a question may mean: a plan, and all that it says in words."""

    text: str
    plan: str


class LinkedEntity(Entity):
    """A topic entity, or what a question may be about."""

    score: float


class Answered(BaseModel):
    """The answers to a question; none if the graph does not hold them."""

    question: str
    method: str
    topic_entities: list[LinkedEntity]
    answers: list[ShownAnswer]
    confidence: float | None
    paths: list[ShownPath]
    notes: list[str]
    readings: list[ShownReading] = []


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

    ``near``: the stored edges whose names differ only in case, punctuation or signs.
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
    sparql: str
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
