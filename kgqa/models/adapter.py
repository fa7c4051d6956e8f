"""The card of an adapter, ``kgqa.json``: which prompts and paths a KG-LLM was trained on.

A model without an adapter has one by preset.

Presets are cards by name: ``default`` is the short form for the offline model; ``gcr`` is what the
published GCR checkpoints were trained on, byte for byte. ``few-shot`` and ``dog`` (arXiv
2410.18415) are for chat models that were trained on no paths at all: examples say what a path, or a
chain of thoughts and triplets, looks like. ``dog-short`` is for models that are trained on chains.
``kg-cot`` names that method's published settings, its defaults: a reasoner has no prompt.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator
from pydantic.dataclasses import dataclass

from kgqa.errors import UsageError
from kgqa.models.folders import (
    BUNDLED,
    CONFIG,
    ModelKind,
    card_content,
    suits,
)
from kgqa.registry import Direction, Mediators  # noqa: TC001 - pydantic reads them

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ScoreRule: TypeAlias = Literal["vocabulary", "allowed"]

CARD_FILE = "kgqa.json"
FORMAT_VERSION = 2
DEFAULT_PROMPT = "Question: {question}\nTopic: {topics}\nPath:"


@dataclass(frozen=True, slots=True, kw_only=True, config=CONFIG)
class AdapterCard:
    """The prompt of a model and the format of its paths.

    A path's tokens follow the prompt directly: ``start`` (if any), the path, ``end``. Raises
    pydantic's ValidationError for an invalid field.
    """

    base_model: str = ""  # name of the model it was trained on; "" fits any
    # with {question} and {topics}, and {graph} if it contains facts; other braces are themselves
    prompt: str = DEFAULT_PROMPT
    reply: str = ""  # what the model's own turn begins with, before the path
    topic_separator: str = ", "
    ask: bool = False  # append "?" to a question that does not end with one
    start: str = ""  # marker token before a path; "" none
    end: str = ""  # marker token after a path; "": the model's end-of-sequence token
    answer: str = ""  # what follows ``end`` if the model writes a hypothesis answer; "": it ends
    added_tokens: tuple[str, ...] = ()  # special tokens that the adapter adds to the tokenizer
    direction: Direction = "out"
    mediators: Mediators = "collapse"
    hops: Annotated[int, Field(ge=1)] = 2
    score_rule: ScoreRule = "allowed"  # probabilities over what is allowed, or the vocabulary
    chat: bool = False  # the prompt is a user turn of the tokenizer's chat template
    # divides the log-probability of a tail beside that of its relation path; infinity: ignore tails
    tail_temperature: Annotated[float, Field(gt=0, strict=False)] = 1 / 0.3
    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.0  # below it the answer is withheld
    # relations of the KG that it was measured on, or what stands before their first dot; () any
    calibrated_on: tuple[str, ...] = ()
    # confidence: the log-odds of the evidence times the slope, plus the shift
    calibration_slope: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    calibration_shift: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    triplets: Annotated[int, Field(ge=0)] = 0  # in its prompt's graph, as trained; 0: not known
    format_version: int = FORMAT_VERSION

    @field_validator("prompt")
    @classmethod
    def _has_places(cls, prompt: str) -> str:
        """Check that the prompt has each placeholder exactly once."""
        for place in ("{question}", "{topics}"):
            if (count := prompt.count(place)) != 1:
                raise ValueError(f"it must hold {place} exactly once, and does {count} times")
        return prompt

    @field_validator("added_tokens")
    @classmethod
    def _are_different(cls, tokens: tuple[str, ...]) -> tuple[str, ...]:
        """Check that no token is empty or repeated."""
        if not all(tokens) or len(set(tokens)) != len(tokens):
            raise ValueError("it holds an empty token, or one of them twice")
        return tokens

    @model_validator(mode="after")
    def _path_ends_before_answer(self) -> AdapterCard:
        """Check that a card with an answer after the path has an end marker."""
        if self.answer and not self.end:
            raise ValueError("with an answer after the path, a marker must end the path")
        return self

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of all fields, for the comparison of cards."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def suits(self, relations: Sequence[str]) -> bool:
        """Return whether the card lists most of these relations, or lists none."""
        return suits(self.calibrated_on, relations)

    def to_json(self) -> str:
        """Return the content of the card's ``kgqa.json``."""
        return json.dumps(card_content(self), indent=2, sort_keys=True) + "\n"

    def write(self, folder: Path) -> None:
        """Write ``kgqa.json`` into an adapter folder, which must exist."""
        (folder / CARD_FILE).write_text(self.to_json(), encoding="utf-8")


def _of_version_1(content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a version 1 card renamed and converted to those of version 2."""
    names = {
        "doubt": "min_confidence",
        "slope": "calibration_slope",
        "shift": "calibration_shift",
        "sharpness": "tail_temperature",
    }
    card = {names.get(name, name): value for name, value in content.items()}
    if isinstance(sharpness := content.get("sharpness"), float) and sharpness >= 0:
        card["tail_temperature"] = 1 / sharpness if sharpness else "Infinity"
    return card


ADAPTERS = ModelKind(
    "adapter",
    AdapterCard,
    CARD_FILE,
    FORMAT_VERSION,
    BUNDLED / "adapters",
    again="Train the adapter again with `kgqa train run`.",
    files=f"{CARD_FILE}, adapter_config.json and adapter_model.safetensors, as `kgqa train` writes "
    "them",
    older={1: _of_version_1},
)


_GCR_PROMPT = (
    "Reasoning path is a sequence of triples in the KG that connects the topic entities in the "
    "question to answer entities. Given a question, please generate some reasoning paths in the "
    "KG starting from the topic entities to answer the question."
    "\n\n# Question: \n{question}\n# Topic entities: \n{topics}\n"
)

# The examples are written as paths are here: a mediator collapsed in the second, two hops in the
# third. None is a question of a benchmark.
_FEW_SHOT_PROMPT = """\
A path of a knowledge graph starts at a topic entity of the question, follows relations, and ends \
at an answer. Write the path that answers the question.

Question: who composed the opera Carmen?
Topic: Carmen
Path: Carmen -> opera.opera.composer -> Georges Bizet

Question: which actors are seen in the film Metropolis?
Topic: Metropolis
Path: Metropolis -> film.film.starring..film.performance.actor -> Brigitte Helm

Question: which nationality does the inventor of the cyclotron have?
Topic: Cyclotron
Path: Cyclotron -> law.invention.inventor -> Ernest Lawrence -> people.person.nationality -> \
United States of America

Question: {question}
Topic: {topics}"""

# Plain facts, the questions invented. The examples show what a chain may do: go on from a triplet's
# tail, take a triplet whose tail is known, take a collapsed mediator, give several answers.
_DOG_PROMPT = """\
Answer the question with facts of a graph. The graph is a list of triplets, head -> relation -> \
tail, with | between them. Think in short sentences. Whenever you use a fact, write its triplet \
between < and >, word for word as it stands in the graph. Each triplet holds an entity of the \
question or of a triplet before it. End with: Therefore, the answer is * X. Several answers are \
written: Therefore, the answer is * X, and * Y.

Graph: Fidelio -> opera.opera.composer -> Ludwig van Beethoven | Ludwig van Beethoven -> \
people.person.place_of_birth -> Bonn | Fidelio -> opera.opera.language -> German Language | \
Ludwig van Beethoven -> people.deceased_person.place_of_death -> Vienna
Question: In which town was the composer of Fidelio born?
Entities: Fidelio
Answer: First I look for the composer of Fidelio. < Fidelio -> opera.opera.composer -> Ludwig van \
Beethoven > Then I look where Ludwig van Beethoven was born. < Ludwig van Beethoven -> \
people.person.place_of_birth -> Bonn > Therefore, the answer is * Bonn.

Graph: Inn -> geography.river.mouth -> Danube | Danube -> geography.river.mouth -> Black Sea | \
Sava -> geography.river.mouth -> Danube | Inn -> geography.river.origin -> Switzerland
Question: Which rivers flow into the Danube?
Entities: Danube
Answer: I look for rivers whose mouth is the Danube. < Inn -> geography.river.mouth -> Danube > \
There is another one. < Sava -> geography.river.mouth -> Danube > Therefore, the answer is * Inn, \
and * Sava.

Graph: Pierre Curie -> people.person.nationality -> France | Pierre Curie -> \
people.person.spouse_s..people.marriage.spouse -> Marie Curie | Marie Curie -> \
people.person.place_of_birth -> Warsaw | Marie Curie -> people.person.profession -> Chemist
Question: Where was the wife of Pierre Curie born?
Entities: Pierre Curie
Answer: First I look for the wife of Pierre Curie. < Pierre Curie -> \
people.person.spouse_s..people.marriage.spouse -> Marie Curie > Then I look where Marie Curie was \
born. < Marie Curie -> people.person.place_of_birth -> Warsaw > Therefore, the answer is * Warsaw.

Graph: {graph}
Question: {question}
Entities: {topics}"""

# A model that has learnt what a chain is needs no examples of it: its prompt is half as long.
_DOG_SHORT_PROMPT = "Graph: {graph}\nQuestion: {question}\nEntities: {topics}\nAnswer:"

_PRESETS = {
    "default": AdapterCard(),
    "gcr": AdapterCard(
        prompt=_GCR_PROMPT,
        reply="# Reasoning Path:\n",
        topic_separator=",",
        ask=True,
        start="<PATH>",
        end="</PATH>",
        answer="\n# Answer:\n",
        mediators="keep",
        score_rule="vocabulary",
        chat=True,
    ),
    "few-shot": AdapterCard(prompt=_FEW_SHOT_PROMPT, reply="Path:", ask=True, chat=True),
    "dog": AdapterCard(prompt=_DOG_PROMPT, reply="Answer:", ask=True, chat=True),
    "dog-short": AdapterCard(prompt=_DOG_SHORT_PROMPT),
    "kg-cot": AdapterCard(),
}

PRESETS = tuple(_PRESETS)
UNTUNED = ("few-shot", "dog", "dog-short")  # no adapter goes with them by itself


def preset(name: str) -> AdapterCard:
    """Return the card of a preset. Raises UsageError for an unknown name."""
    try:
        return _PRESETS[name]
    except KeyError:
        raise UsageError(
            f"The preset {name!r} does not exist.", f"There are: {', '.join(PRESETS)}."
        ) from None
