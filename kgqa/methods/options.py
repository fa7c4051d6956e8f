"""The options of the methods: what each can be asked for, a sentence a field.

The models say what a value may be, and :meth:`MethodOptions.check` what does not fit together, both
before anything heavy is imported or loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import model_validator

from kgqa.errors import UsageError
from kgqa.registry import SEARCHES, Direction, Mediators, Options, Registry, option

if TYPE_CHECKING:
    from typing import Self

    from kgqa.config import Settings

_walk, _model, _general, _weighed, _speed = (
    partial(option, group=name) for name in ("walks", "KG-LLM", "general LLM", "answers", "speed")
)
_share = partial(_weighed, ge=0, le=1)


class WalkOptions(Options):
    """Which walks of a KG are paths."""

    hops: int | None = _walk(
        None,
        "Maximum number of hops of a path (default: as the model was trained).",
        flag=True,
        ge=1,
        le=32,
    )
    direction: Direction | None = _walk(
        None, "Follow edges in their direction, against it, or both (default: as the KG says)."
    )
    mediators: Mediators | None = _walk(
        None, "Collapse mediators into hops, or keep them (default: as the model was trained)."
    )


class MethodOptions(WalkOptions):
    """The options that every method has."""

    needs_topics: ClassVar[bool] = True  # whether it starts at topic entities
    asks_whole: ClassVar[bool] = False  # whether it also answers what has no topic entity
    presets: ClassVar[tuple[str, ...]] = ("default", "gcr", "few-shot")  # those that fit it

    k: int = option(10, "Number of paths to find.", flag=True, ge=1, le=1_000)
    preset: str | None = _model(None, "A named set of prompt, markers and walk rules.", flag=True)
    today: str | None = option(
        None, 'The day of "last month" and "today", YYYY-MM-DD (default: the clock\'s).'
    )
    zone: str | None = option(
        None, "Time zone of the clock, such as Europe/Berlin (default: the machine's)."
    )
    general_model: str | None = _general(
        None, "Model of an OpenAI-compatible server that writes the answers.", flag=True
    )
    general_masked: bool = _general(
        False, "Send relations and numbers, and no names, to the general LLM."
    )
    answer_tokens: int | None = _general(
        None, "Maximum number of tokens in the general LLM's reply.", ge=1
    )
    cache_calls: bool = _general(
        True, "Cache the general LLM's replies, so that no call is made twice."
    )
    concurrency: int = _general(8, "Number of simultaneous calls to the general LLM.", ge=1, le=256)

    def check(self, settings: Settings) -> None:
        """Raise UsageError for options that contradict each other or the method; loads nothing."""
        if (name := self.preset) is not None:
            from kgqa.models.adapter import preset

            preset(name)  # raises UsageError for an unknown one
            if name not in self.presets:
                raise UsageError(
                    f"The preset {name} is for another method.",
                    f"Leave out `preset`; this method takes: {', '.join(self.presets)}.",
                )


class KgLlmOptions(MethodOptions):
    """The options of a method with a KG-LLM."""

    model: str | None = _model(None, "The KG-LLM: a hub name, a folder or a GGUF file.", flag=True)
    adapter: str | None = _model(None, "A LoRA adapter's folder or name, or 'none'.", flag=True)
    quantize: Literal["4bit", "8bit"] | None = _model(
        None, "Load the weights in 4 or 8 bits (needs bitsandbytes)."
    )


class GcrOptions(KgLlmOptions):
    """The options of graph-constrained reasoning, without those of the search."""

    parts: ClassVar[Mapping[str, Registry]] = {"search": SEARCHES}

    search: str = _model("beam", "The search that finds the paths.", flag=True)
    search_options: Any = option(None, "The search's own options, which are given by their names.")
    score_rule: Literal["vocabulary", "allowed"] | None = _model(
        None,
        "Normalise over the vocabulary, or over what the graph allows (default: as trained).",
    )
    length_penalty: float = _model(
        0.0,
        "Divide a path's score by its number of tokens to this power, as generate does.",
        ge=-10,
        le=10,
    )
    time_limit: float | None = _speed(
        None, "Time limit in seconds for decoding a question; exceeding it is an error.", gt=0
    )
    budget: int | None = _speed(
        None, "Number of tokens in a forward pass (default: measured).", ge=1
    )
    together: int | None = _speed(
        None,
        "Number of questions that share a forward pass (default: what suits the device).",
        ge=1,
    )
    expand: bool = _weighed(True, "Also return other entities on the same relation path.")
    answer_threshold: float | None = _share(
        None, "Minimum weight of an answer, relative to the first one."
    )
    min_confidence: float | None = _share(None, "Give no answer if the confidence is lower.")
    max_tails: int | None = _weighed(
        None, "Maximum number of tails of a relation path that is expanded (200).", ge=1
    )

    def check(self, settings: Settings) -> None:
        """Raise UsageError for options that contradict each other, K and the search's included."""
        super().check(settings)
        search = SEARCHES.entry(self.search).load()(self.search_options)
        search.check(self.k, self.length_penalty)

    @model_validator(mode="after")
    def _fit(self) -> Self:
        """Raise UsageError for ranking options without ``expand``."""
        idle = [
            name
            for name in ("answer_threshold", "min_confidence", "max_tails")
            if getattr(self, name) is not None
        ]
        if not self.expand and idle:
            raise UsageError(
                f"`{idle[0]}` has no meaning without `expand`: then decoded paths alone count.",
                f"Leave out `{idle[0]}`, or leave `expand` on.",
            )
        return self


class CardOptions(MethodOptions):
    """The options of a method whose model has a sentence encoder named in its card."""

    encoder: str | None = option(
        None, "Name or folder of the sentence encoder that the model was trained with (MiniLM)."
    )


class KgCotOptions(CardOptions):
    """The options of KG-CoT."""

    presets: ClassVar[tuple[str, ...]] = ("kg-cot",)

    reasoner: str | None = option(
        None,
        "A graph reasoner's folder, or the name of a bundled one (default: what fits the KG).",
    )
    paths_each: int = option(1, "Number of paths to each of the K most likely entities.", ge=1)
    answer_threshold: float | None = _share(
        None, "Minimum score of an answer, relative to the first one (default: the reasoner's)."
    )


class DogOptions(KgLlmOptions):
    """The options of Decoding on Graphs."""

    presets: ClassVar[tuple[str, ...]] = ("dog", "dog-short")

    beams: int = option(3, "Number of chains, and of triplets tried at each step.", ge=1, le=16)
    steps: int = option(5, "Maximum number of triplets in a chain.", ge=1, le=64)
    walk: Literal["filtered", "store"] = _walk(
        "filtered", "Follow the prompt's graph, or the whole store."
    )
    triplets: int | None = option(
        None,
        "Number of triplets in the prompt (default: as the model was trained, or 120).",
        ge=1,
    )
    cap: int = option(300, "Number of triplets that are compared with the question.", ge=1)
    encoder: str | None = option(
        None, "Name or folder of the sentence encoder that compares them (MiniLM)."
    )
    chain_tokens: int = option(512, "Maximum number of tokens in a chain.", ge=2)
    thought_tokens: int = option(
        128,
        "Maximum number of tokens in a thought; a chain that opens no triplet by then ends.",
        ge=1,
    )
    time_limit: float | None = _speed(
        None, "Time limit in seconds for the chains of a question.", gt=0
    )
    budget: int | None = _speed(
        None, "Number of tokens in a forward pass (default: measured).", ge=1
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        """Raise UsageError for the direction "in", which chains do not have."""
        if self.direction == "in":
            raise UsageError(
                "Triplets are written as they are stored, so `direction` cannot be 'in'.",
                "Leave out `direction`: a triplet is taken at either end in any case.",
            )
        return self


class EnsembleOptions(GcrOptions, KgCotOptions):
    """The options of gcr and kg-cot together."""

    presets: ClassVar[tuple[str, ...]] = GcrOptions.presets


class RankOptions(CardOptions):
    """The options of path ranking."""

    presets: ClassVar[tuple[str, ...]] = ("kg-cot",)

    ranker: str | None = option(
        None, "A path ranker's folder, or the name of a bundled one (default: what suits the KG)."
    )
    answer_threshold: float | None = _share(
        None, "Minimum score of an answer, relative to the first one (0.7)."
    )
    refuse_above: float | None = _share(
        None,
        "Give no answer if the graph lacks it with a higher probability (default: the ranker's).",
    )
    conditions: bool = _weighed(
        True, "Filter answers by the entities, values and superlatives in the question."
    )


class AutoOptions(EnsembleOptions, RankOptions):
    """The options of the default method."""

    presets: ClassVar[tuple[str, ...]] = GcrOptions.presets
    asks_whole: ClassVar[bool] = True


_PLANS_ARE_CHOSEN = (
    "Plans are chosen by the scorer alone; a language model of yours can write them under the "
    "constraint that `kg.plans(question, tokenizer)` returns."
)


class QueryOptions(MethodOptions):
    """The options of plans over the whole graph."""

    removed: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("chooser", "written", "constrained"), _PLANS_ARE_CHOSEN
    )
    needs_topics: ClassVar[bool] = False
    asks_whole: ClassVar[bool] = True
    presets: ClassVar[tuple[str, ...]] = ()

    scorer: str | None = option(None, "A plan scorer's folder (default: the bundled one).")
    plans: int = option(12, "Number of plans that are run and compared.", ge=1, le=100)
    time_limit: float = _speed(10.0, "Time limit in seconds for each plan.", gt=0)
    sure_from: float = _share(0.6, "Confidence from which no other reading is shown.")
    refuse_below: float = _share(0.15, "Give no answer below this confidence.")
