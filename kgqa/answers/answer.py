"""The answer of a method: ranked answers, the grounded paths behind them, and its costs."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, replace
from operator import is_
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kgqa.display import path_parts, shown_name, visible
from kgqa.tabular import Tabular

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from kgqa.errors import KgqaError
    from kgqa.graph.schema import Value
    from kgqa.paths.ground import Fact, GroundedPath, PathEdge
    from kgqa.queries.plan import Plan
    from kgqa.queries.result import QueryResult
    from kgqa.understanding.question import Understood

YES, NO = "yes", "no"  # the names of answers to yes-or-no questions
Source: TypeAlias = Literal["shard", "composed"]


@dataclass(frozen=True, slots=True)
class TopicEntity:
    """An entity from which paths start; ``score`` is the linker's, or 1.0 if the user named it.

    ``mention``: the words of the question that were linked to it; ``shared``: whether they are as
    much a part of other entities' names.
    """

    key: int
    id: str
    name: str
    score: float
    mention: str = field(default="", compare=False, repr=False)
    shared: bool = field(default=False, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the topic entity as a dictionary for JSON output."""
        return {"id": self.id, "name": self.name, "score": self.score}


@dataclass(frozen=True, slots=True)
class ScoredPath:
    """A decoded path, with all id paths that its text may mean, each verified in the store.

    ``score``: the sum of the log-probabilities of its tokens. ``hypothesis``: the answer that the
    model wrote after the path, or the name of its last entity. ``coverage`` and ``lost``: how much
    probability the model gave to relations that the graph lacks
    (:func:`kgqa.methods.grounding.evidence_of`), None and 0 if not measured. ``written``: the whole
    text around the path, if the model wrote more than paths; only ``text`` is in the graph.
    """

    text: str
    score: float
    hypothesis: str
    groundings: tuple[GroundedPath, ...]
    coverage: float | None = None
    lost: float = 0.0
    written: str = ""

    @classmethod
    def joined(cls, paths: Iterable[tuple[float, GroundedPath]]) -> list[ScoredPath]:
        """Return grounded paths with their scores; those of one text are one, with the best score.

        Entities may share a name.
        """
        by_text: dict[str, list[tuple[float, GroundedPath]]] = {}
        for score, path in paths:
            by_text.setdefault(path.text, []).append((score, path))
        return [
            cls(text, max(score for score, _ in same), same[0][1].tail.name,
                tuple(path for _, path in same))
            for text, same in by_text.items()
        ]  # fmt: skip

    @property
    def edges(self) -> tuple[PathEdge, ...]:
        """The edges of the first grounding; :attr:`groundings` has all groundings."""
        return self.groundings[0].edges

    def to_dict(self) -> dict[str, Any]:
        """Return the path as a dictionary for JSON output; ``written`` only if present."""
        edges = [[edge.to_dict() for edge in path.edges] for path in self.groundings]
        return {
            "text": self.text,
            "score": self.score,
            "hypothesis": self.hypothesis,
            "edges": edges[0] if edges else [],
            "groundings": edges,
            "grounded": bool(edges),
            **({"written": self.written} if self.written else {}),
        }


@dataclass(frozen=True, slots=True)
class ExpandedPath:
    """A path that was walked, not decoded, so it has no score; its edges are in the store.

    ``source``: the text of the decoded path with the same relation path.
    """

    grounding: GroundedPath
    source: str

    @property
    def text(self) -> str:
        """The path as text."""
        return self.grounding.text

    @property
    def groundings(self) -> tuple[GroundedPath, ...]:
        """The path itself, its only grounding."""
        return (self.grounding,)

    @property
    def edges(self) -> tuple[PathEdge, ...]:
        """The edges of the path, in order."""
        return self.grounding.edges

    def to_dict(self) -> dict[str, Any]:
        """Return the path as a dictionary for JSON output, marked as expanded."""
        edges = [edge.to_dict() for edge in self.grounding.edges]
        return {
            "text": self.text,
            "score": None,
            "hypothesis": self.grounding.tail.name,
            "edges": edges,
            "groundings": [edges],
            "grounded": True,
            "expanded": True,
            "source": self.source,
        }


AnyPath: TypeAlias = "ScoredPath | ExpandedPath"


@dataclass(frozen=True, slots=True)
class Condition:
    """An edge of an answer, or a qualifier on its path, that meets the words ``asked``.

    ``grounding`` is that edge, verified in the store.
    """

    asked: str
    grounding: GroundedPath

    def to_dict(self) -> dict[str, Any]:
        """Return the condition as a dictionary for JSON output."""
        edges = [edge.to_dict() for edge in self.grounding.edges]
        text = self.grounding.text
        return {"asked": self.asked, "text": text, "edges": edges, "grounded": True}


@dataclass(frozen=True, slots=True)
class RankedAnswer:
    """An answer: ``id`` is None if it is not an entity; ``grounded``: a path ends in it.

    A grounded answer without an id is "yes", and all paths support it.

    ``paths``: those that lead to it, best first, filled in by :class:`Answer`. ``conditions``:
    those of the question that it meets. ``mentioned``: a general LLM mentioned it in a sentence,
    but did not give it as the answer. ``types`` and ``properties``: its classes and values in the
    graph.
    """

    id: str | None
    name: str
    score: float
    grounded: bool
    paths: tuple[AnyPath, ...] = field(default=(), compare=False, repr=False)
    conditions: tuple[Condition, ...] = field(default=(), compare=False, repr=False)
    types: tuple[str, ...] = field(default=(), compare=False, repr=False)
    properties: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as a dictionary for JSON output, without paths and conditions.

        ``types`` and ``properties`` only if there are any.
        """
        content = {"id": self.id, "name": self.name, "score": self.score, "grounded": self.grounded}
        more = {"types": [*self.types], "properties": self.properties}
        return content | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, slots=True)
class ConstraintUse:
    """How the constraint of one topic entity was built."""

    entity: str
    source: Source
    paths: int | None


@dataclass(frozen=True, slots=True)
class KgLlmUse:
    """The KG-LLM that was used, with its calls and tokens."""

    model: str
    adapter: str | None
    calls: int
    prompt_tokens: int
    generated_tokens: int


@dataclass(frozen=True, slots=True)
class RelationShare:
    """The probability that the question asks for a relation path, in words: ``x supplied by ?``.

    ``topic``: the id of ``x``. ``missing``: similar entities have the relation path, but ``x`` has
    not.
    """

    topic: str
    words: str
    probability: float
    missing: bool = False


@dataclass(frozen=True, slots=True)
class PlanReading:
    """An alternative reading of a question: a ``plan``, and its sentence ``text``."""

    text: str
    plan: Plan

    def to_dict(self) -> dict[str, str]:
        """Return the reading as a dictionary for JSON output."""
        return {"text": self.text, "plan": str(self.plan)}


NO_KG_LLM = KgLlmUse("none", None, 0, 0, 0)  # for a method without a KG-LLM


@dataclass(frozen=True, slots=True)
class GeneralLlmUse:
    """The general LLM that was used, with its calls and tokens."""

    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class SearchUse:
    """The search that found the paths, with the certificate of an exact one, else None.

    ``proven``: no path outside the list has a higher score than one in it. ``certain``: for how
    many first paths that holds in any case. ``bound``: the highest score that a path outside the
    list can have, ``-inf`` if there is none. ``demands``: how often scores were demanded.
    """

    kind: str = "beam"
    proven: bool | None = None
    certain: int | None = None
    bound: float | None = None
    demands: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the search as a dictionary for JSON output; a bound of ``-inf`` is null."""
        finite = self.bound is not None and math.isfinite(self.bound)
        return asdict(self) | {"bound": self.bound if finite else None}


@dataclass(frozen=True, slots=True)
class Timings:
    """The seconds of each stage."""

    link: float = 0.0
    constraint: float = 0.0
    decode: float = 0.0
    ground: float = 0.0
    answer: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all stages."""
        return self.link + self.constraint + self.decode + self.ground + self.answer

    def to_dict(self) -> dict[str, float]:
        """Return the timings as a dictionary for JSON output."""
        stages = asdict(self) | {"total": self.total}
        return {stage: round(seconds, 4) for stage, seconds in stages.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The result of a method for one question, from which an :class:`Answer` is made.

    ``others``: entities with less evidence than the ``answers``; all entities if the evidence is
    insufficient. ``expanded``: paths to answers and others in which no decoded path ends.
    ``confidence``: in the first answer (:func:`kgqa.answers.ranking.decide`), None if nothing was
    weighed. ``relations``: the likeliest of each topic, if the method ranks them. ``result``: the
    rows of a plan over the whole graph, if one answered. ``covers``: the ids of the question's
    entities that such a plan uses. ``readings``: if the plan is uncertain, the two likeliest with a
    result, the best first. ``count``: the number of all answers, also those not listed, if the
    question asks for it.
    """

    answers: tuple[RankedAnswer, ...] = ()
    paths: tuple[ScoredPath, ...] = ()
    constraints: tuple[ConstraintUse, ...] = ()
    kg_llm: KgLlmUse = NO_KG_LLM
    general_llm: GeneralLlmUse | None = None
    timings: Timings = Timings()
    forward_passes: int = 0
    notes: tuple[str, ...] = ()
    search: SearchUse = SearchUse()
    others: tuple[RankedAnswer, ...] = ()
    expanded: tuple[ExpandedPath, ...] = ()
    confidence: float | None = None
    relations: tuple[RelationShare, ...] = ()
    result: QueryResult | None = None
    covers: frozenset[str] = frozenset()
    readings: tuple[PlanReading, ...] = ()
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer(Tabular, Findings):
    """The complete answer to one question: findings, question, method and costs.

    ``error``: why a question that was asked with others failed (:meth:`kgqa.QA.batch`).
    ``understood``: how the question was read.
    """

    question: str
    method: str
    topic_entities: tuple[TopicEntity, ...]
    error: KgqaError | None = None
    understood: Understood | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        behind = self._behind()
        for name in ("answers", "others"):
            ranked = []
            for item in getattr(self, name):
                paths = self._behind_of(item, behind)
                same = len(paths) == len(item.paths) and all(map(is_, paths, item.paths))
                ranked.append(item if same else replace(item, paths=paths))
            object.__setattr__(self, name, tuple(ranked))

    @classmethod
    def of(
        cls,
        question: str,
        method: str,
        topics: Sequence[TopicEntity],
        findings: Findings,
        link_seconds: float = 0.0,
    ) -> Answer:
        """Make the answer of ``method`` to ``question`` from findings.

        ``link_seconds``: the time that linking took.
        """
        given = {finding.name: getattr(findings, finding.name) for finding in fields(Findings)}
        given["timings"] = replace(findings.timings, link=link_seconds)
        return cls(question=question, method=method, topic_entities=tuple(topics), **given)

    @property
    def best(self) -> RankedAnswer | None:
        """The first answer, None if there is none."""
        return self.answers[0] if self.answers else None

    @property
    def plan(self) -> Plan | None:
        """The plan over the whole graph that gave the answer, None if paths did."""
        return None if self.result is None else self.result.plan

    @property
    def cypher(self) -> str | None:
        """The plan as Cypher for Neo4j Browser, None if paths gave the answer."""
        return None if self.result is None else self.result.cypher

    @property
    def value(self) -> Value | None:
        """The single value of a plan's result, or the requested number of answers; else None."""
        return self.count if self.result is None else self.result.value

    def _behind(self) -> dict[str | None, list[AnyPath]]:
        """Return, by entity id, the paths that end in the entity, otherwise those through it."""
        ends: dict[str | None, list[AnyPath]] = {}
        passed: dict[str | None, list[AnyPath]] = {}  # of an entity that no path ends in
        every: tuple[AnyPath, ...] = (*self.paths, *self.expanded)
        for path in every:
            for id_ in {grounding.tail.id: None for grounding in path.groundings}:
                ends.setdefault(id_, []).append(path)
            for id_ in {
                edge.tail.id: None for grounding in path.groundings for edge in grounding.edges
            }:
                passed.setdefault(id_, []).append(path)
        return passed | ends

    def paths_of(self, answer: RankedAnswer) -> tuple[AnyPath, ...]:
        """Return the paths that end in ``answer``, best first; if none does, those through it."""
        return self._behind_of(answer, self._behind())

    def _behind_of(
        self, answer: RankedAnswer, behind: Mapping[str | None, list[AnyPath]]
    ) -> tuple[AnyPath, ...]:
        """Return the paths behind an answer: all for "yes", () for one that is not in the graph.

        ``behind``: paths by entity id, from :meth:`_behind`.
        """
        if answer.id is None:
            return self.paths if answer.grounded else ()
        return tuple(behind.get(answer.id, ()))

    def facts(self) -> list[Fact]:
        """Return the distinct stored triples of all paths, answers' expanded paths and conditions.

        Those of the best path come first.
        """
        shown = [grounding for path in self.paths for grounding in path.groundings]
        shown += [expanded_path.grounding for expanded_path in self.expanded_answers()]
        shown += [condition.grounding for answer in self.answers for condition in answer.conditions]
        edges = (edge for path in shown for edge in path.edges)
        return list(dict.fromkeys(fact for edge in edges for fact in edge.facts))

    def expanded_answers(self) -> list[ExpandedPath]:
        """Return the expanded paths that end in an answer."""
        ids = {answer.id for answer in self.answers}
        return [path for path in self.expanded if path.grounding.tail.id in ids]

    def residual(self) -> tuple[str, ...]:
        """Return the words of the question that match no name used for the first answer.

        Words are compared, not meanings: a path ranked by meaning may be right without them.
        """
        from kgqa.understanding.alignment import residual

        if self.understood is None:
            return ()
        names = [text for topic in self.topic_entities for text in (topic.name, topic.mention)]
        names += [] if self.plan is None else [str(self.plan)]
        names += [path.text for path in self.paths[:1]]
        names += [path.text for path in self.expanded[:1]]
        for ranked in self.answers[:1]:
            names += (ranked.name, *ranked.types, *(each.asked for each in ranked.conditions))
        return residual(self.understood, names)

    def to_dict(
        self, browser_url: str | None = None, *, listed: int | None = None
    ) -> dict[str, Any]:
        """Return the answer as ``ask --json`` prints it, or the error of a failed question.

        ``listed``: the most facts and counted entities listed for a row of a plan; None lists all.
        """
        if self.error is not None:
            error = {"message": self.error.message, "hint": self.error.hint}
            return {"question": self.question, "error": error}
        place = {id(path): number for number, path in enumerate(self.paths)}
        return {
            "question": self.question,
            "method": self.method,
            "topic_entities": [topic.to_dict() for topic in self.topic_entities],
            "answers": [
                answer.to_dict()
                | {
                    "paths": [place[id(path)] for path in answer.paths if id(path) in place],
                    "conditions": [each.to_dict() for each in answer.conditions],
                }
                for answer in self.answers
            ],
            "others": [other.to_dict() for other in self.others],
            "confidence": self.confidence,
            "paths": [path.to_dict() for path in self.paths],
            "expanded": [path.to_dict() for path in self.expanded],
            "constraints": [asdict(constraint) for constraint in self.constraints],
            "kg_llm": asdict(self.kg_llm),
            "general_llm": None if self.general_llm is None else asdict(self.general_llm),
            "timings": self.timings.to_dict(),
            "forwards": self.forward_passes,
            "search": self.search.to_dict(),
            "notes": list(self.notes),
            "readings": [reading.to_dict() for reading in self.readings],
            "understood": (
                None if self.understood is None else self.understood.to_dict(self.residual())
            ),
            "browser_url": browser_url,
            **({} if self.count is None else {"count": self.count}),
            **({} if self.result is None else {"query": self.result.to_dict(listed)}),
        }

    def to_arrow(self) -> pa.Table:
        """Return the answers as an Arrow table, best first.

        Columns: rank, id, name, score, grounded and path (the text of the best one, or null); for a
        plan, its own columns.
        """
        import pyarrow as pa

        if self.result is not None:
            return self.result.to_arrow()
        columns = pa.schema({
            "rank": pa.int64(), "id": pa.string(), "name": pa.string(), "score": pa.float64(),
            "grounded": pa.bool_(), "path": pa.string(),
        })  # fmt: skip
        rows = []
        for rank, one in enumerate(self.answers, 1):
            path = one.paths[0].text if one.paths else None
            row = (rank, one.id, one.name, one.score, one.grounded, path)
            rows.append(dict(zip(columns.names, row, strict=True)))
        return pa.Table.from_pylist(rows, schema=columns)

    def __repr__(self) -> str:
        lines = [visible(self.question)]
        names = [answer.name for answer in self.answers]
        for number, answer in enumerate(self.answers, 1):
            shared = answer.id is not None and names.count(answer.name) > 1
            named = shown_name(answer.name) + (f" ({shown_name(str(answer.id))})" if shared else "")
            lines.append(f"{number}. {named}  {answer.score:.3f}")
            lines += [f"     {''.join(path_parts(path.edges))}" for path in answer.paths]
            lines += [
                f"     {visible(each.asked)}: {''.join(path_parts(each.grounding.edges))}"
                for each in answer.conditions
            ]
        why = f"Error: {self.error}" if self.error else "No answer."
        return "\n".join(lines if self.answers else [*lines, why])

    def _repr_html_(self) -> str:
        """Return the answer as HTML for notebooks."""
        from kgqa.answers.notebook import answer_html

        return answer_html(self.to_dict())
