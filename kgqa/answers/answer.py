"""What a method gives: answers, the grounded paths behind them, and what it cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from kgqa.answers.expand import ExpandedPath
    from kgqa.paths.ground import Fact, GroundedPath

Source: TypeAlias = Literal["shard", "composed"]


@dataclass(frozen=True, slots=True)
class TopicEntity:
    """Where paths start; ``score`` is the linker's, 1.0 where the user named the entity."""

    key: int
    id: str
    name: str
    score: float

    def to_json(self) -> dict[str, Any]:
        """Return the topic entity as the JSON contract has it."""
        return {"id": self.id, "name": self.name, "score": self.score}


@dataclass(frozen=True, slots=True)
class ScoredPath:
    """A decoded path: every id path that its text stands for, each checked in the store.

    ``score`` is the sum of the log-probabilities of its tokens. ``hypothesis``: what the model
    answered after it, else the name of its last entity. ``coverage``: how much of its own
    probability the model had on relations that the graph has (:mod:`kgqa.answers.evidence`), None
    where that was not measured; ``lost``: the logarithm of the same, over all of a path's relation
    tokens together, 0 where it was not measured. ``written``: the whole text that the path stands
    in, where the model wrote more than paths; only ``text`` is in the graph.
    """

    text: str
    score: float
    hypothesis: str
    groundings: tuple[GroundedPath, ...]
    coverage: float | None = None
    lost: float = 0.0
    written: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the path as the JSON contract has it; ``written`` only where there is any."""
        edges = [[edge.to_json() for edge in path.edges] for path in self.groundings]
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
class RankedAnswer:
    """An answer. ``id`` is None and ``grounded`` False where no path ends in it."""

    id: str | None
    name: str
    score: float
    grounded: bool

    def to_json(self) -> dict[str, Any]:
        """Return the answer as the JSON contract has it."""
        return {"id": self.id, "name": self.name, "score": self.score, "grounded": self.grounded}


@dataclass(frozen=True, slots=True)
class ConstraintUse:
    """Which form of constraint served a topic entity."""

    entity: str
    source: Source
    paths: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the use as the JSON contract has it."""
        return {"entity": self.entity, "source": self.source, "paths": self.paths}


@dataclass(frozen=True, slots=True)
class KgLlmUse:
    """What the KG-LLM cost."""

    model: str
    adapter: str | None
    calls: int
    prompt_tokens: int
    generated_tokens: int


@dataclass(frozen=True, slots=True)
class GeneralLlmUse:
    """What the general LLM cost."""

    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class SearchUse:
    """Which search found the paths, and what an exact one proved; None where nothing is proven.

    ``proven``: no path outside the list has a higher score than one in it. ``certain``: how many
    paths at the head of the list that holds for in any case. ``bound``: the highest score that a
    path which is not shown can have, ``-inf`` where there is none. ``demands``: how often the
    search asked for scores.
    """

    kind: str = "beam"
    proven: bool | None = None
    certain: int | None = None
    bound: float | None = None
    demands: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the search as the JSON contract has it; a bound of ``-inf`` is null."""
        bound = self.bound if self.bound is not None and math.isfinite(self.bound) else None
        return {
            "kind": self.kind,
            "proven": self.proven,
            "certain": self.certain,
            "bound": bound,
            "demands": self.demands,
        }


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of each stage."""

    link: float = 0.0
    constraint: float = 0.0
    decode: float = 0.0
    ground: float = 0.0
    answer: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all stages."""
        return self.link + self.constraint + self.decode + self.ground + self.answer

    def to_json(self) -> dict[str, float]:
        """Return the timings as the JSON contract has them."""
        stages = ("link", "constraint", "decode", "ground", "answer", "total")
        return {stage: round(getattr(self, stage), 4) for stage in stages}


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything a method found out about one question.

    ``others``: entities that paths lead to and that have less behind them than the ``answers``; all
    of them where the evidence is too thin for an answer. ``expanded``: the paths of answers and
    others that no decoded path ends in. ``confidence``: how sure the first of them is
    (:mod:`kgqa.answers.confidence`), None where nothing was weighed.
    """

    question: str
    method: str
    topic_entities: tuple[TopicEntity, ...]
    answers: tuple[RankedAnswer, ...]
    paths: tuple[ScoredPath, ...]
    constraints: tuple[ConstraintUse, ...]
    kg_llm: KgLlmUse
    general_llm: GeneralLlmUse | None
    timings: Timings
    forwards: int
    notes: tuple[str, ...] = ()
    search: SearchUse = SearchUse()
    others: tuple[RankedAnswer, ...] = ()
    expanded: tuple[ExpandedPath, ...] = ()
    confidence: float | None = None

    def facts(self) -> list[Fact]:
        """Return the stored triples behind all paths, each once, the best path's first.

        Of the expanded paths those of answers.
        """
        shown = [one for path in self.paths for one in path.groundings]
        shown += [one.grounding for one in self.expanded_answers()]
        edges = (edge for path in shown for edge in path.edges)
        return list(dict.fromkeys(fact for edge in edges for fact in edge.facts))

    def expanded_answers(self) -> list[ExpandedPath]:
        """Return the expanded paths that end in an answer."""
        ids = {answer.id for answer in self.answers}
        return [one for one in self.expanded if one.grounding.tail.id in ids]

    def to_json(self, browser_url: str | None) -> dict[str, Any]:
        """Return the answer as the JSON contract of ``ask --json`` has it."""
        general = self.general_llm
        return {
            "question": self.question,
            "method": self.method,
            "topic_entities": [topic.to_json() for topic in self.topic_entities],
            "answers": [answer.to_json() for answer in self.answers],
            "others": [other.to_json() for other in self.others],
            "confidence": self.confidence,
            "paths": [path.to_json() for path in self.paths],
            "expanded": [path.to_json() for path in self.expanded],
            "constraints": [constraint.to_json() for constraint in self.constraints],
            "kg_llm": {
                "model": self.kg_llm.model,
                "adapter": self.kg_llm.adapter,
                "calls": self.kg_llm.calls,
                "prompt_tokens": self.kg_llm.prompt_tokens,
                "generated_tokens": self.kg_llm.generated_tokens,
            },
            "general_llm": None
            if general is None
            else {
                "model": general.model,
                "calls": general.calls,
                "prompt_tokens": general.prompt_tokens,
                "completion_tokens": general.completion_tokens,
            },
            "timings": self.timings.to_json(),
            "forwards": self.forwards,
            "search": self.search.to_json(),
            "browser_url": browser_url,
        }
