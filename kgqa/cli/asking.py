"""The flags that say what ``kgqa ask`` and ``kgqa eval`` answer questions with, and their checks.

What this does not do: make a method of them (``kgqa.cli.making``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from kgqa.cli import asking_dog, llm

if TYPE_CHECKING:
    from kgqa.answers.vote import WeighOptions
    from kgqa.cli.common import Run
    from kgqa.methods.searches import SearchOptions
    from kgqa.models.kg_llm import Quantize

MethodName = Literal[
    "gcr", "kg-cot", "dog", "ensemble", "auto", "retrieval", "direct", "cot", "self-consistency"
]
METHODS: tuple[str, ...] = get_args(MethodName)
TOGETHER = ("ensemble", "auto")  # of gcr and kg-cot
BASELINES = ("direct", "cot", "self-consistency")  # without the KG: measured, not used

MethodFlag = Annotated[
    MethodName,
    typer.Option(
        help="gcr; dog: thoughts and triplets; kg-cot: a graph model walks; retrieval: nearest "
        "paths; direct, cot, self-consistency: no KG."
    ),
]
EncoderFlag = Annotated[
    str | None,
    typer.Option(help="retrieval, dog: a sentence-transformers name or folder (MiniLM)."),
]
CapFlag = Annotated[
    int | None,
    typer.Option(help="retrieval, --all-paths: a sample of so many of an entity (2000).", min=1),
]
ReasonerFlag = Annotated[
    str | None,
    typer.Option(help="kg-cot, ensemble, auto: a reasoner's folder, or the name of a bundled one."),
]
PathsEachFlag = Annotated[
    int | None,
    typer.Option(help="kg-cot, ensemble, auto: paths of each of the K entities (1).", min=1),
]
ConcurrencyFlag = Annotated[
    int, typer.Option(help="Calls of the general LLM at a time.", min=1, max=256)
]
AnswerTokensFlag = Annotated[
    int | None, typer.Option(help="Tokens that the general LLM may answer with.", min=1)
]
CacheCallsFlag = Annotated[
    bool,
    typer.Option(
        "--cache-calls/--no-cache-calls",
        help="Keep the general LLM's answers, and do not ask for one twice.",
    ),
]


@dataclass(frozen=True, slots=True)
class Flags:
    """What the flags of a command say about the method. None is the default of each."""

    method: str = "gcr"
    k: int = 10
    wanted: llm.Wanted = field(default_factory=llm.Wanted)
    general: str | None = None
    searched: SearchOptions | None = None
    weigh: WeighOptions | None = None
    unconstrained: bool = False
    all_paths: bool = False
    encoder: str | None = None
    reasoner: str | None = None
    paths_each: int | None = None
    cut: float | None = None
    dog: asking_dog.DogFlags = field(default_factory=asking_dog.DogFlags)
    cap: int | None = None
    prompt_tokens: int | None = None
    samples: int | None = None
    concurrency: int | None = None
    answer_tokens: int | None = None
    cache_calls: bool = True
    together: int | None = None
    time_limit: float | None = None
    budget: int | None = None
    quantize: Quantize | None = None

    @property
    def decodes(self) -> bool:
        """Whether a KG-LLM writes paths."""
        return self.method in ("gcr", "dog", *TOGETHER) and not self.all_paths

    def check(self, run: Run) -> None:
        """Raise UsageError for what cannot be meant, before anything is loaded."""
        from kgqa.errors import UsageError

        self.wanted.check()
        asking_dog.check(self)
        preset = self.wanted.preset
        if preset is not None and (preset == "kg-cot") != (self.method == "kg-cot"):
            raise UsageError(
                f"The preset {preset} does not go with --method {self.method}.",
                f"Leave --preset {preset} out"
                + (", or add --method kg-cot." if preset == "kg-cot" else "."),
            )
        if self.unconstrained and self.all_paths:
            raise UsageError(
                "--unconstrained lets the KG-LLM write freely, --all-paths leaves it out.",
                "Give one of them.",
            )
        dog = self.method == "dog"
        walks = self.method in ("kg-cot", *TOGETHER)
        bound = self.decodes and not self.unconstrained and not dog
        searched = self.searched is not None and self.searched.kind != "beam"
        for flag, given, fits, of in (
            ("--unconstrained", self.unconstrained, self.method == "gcr", "--method gcr"),
            ("--all-paths", self.all_paths, self.method == "gcr", "--method gcr"),
            ("--model", self.wanted.model, self.decodes, "a method with a KG-LLM"),
            ("--adapter", self.wanted.adapter, self.decodes, "a method with a KG-LLM"),
            ("--quantize", self.quantize, self.decodes, "a method with a KG-LLM"),
            ("--search", searched, bound, "constrained decoding"),
            ("--sample", self.wanted.sample, bound, "constrained decoding"),
            ("--time-limit", self.time_limit, bound or dog, "constrained decoding"),
            ("--together", self.together, bound, "constrained decoding"),
            ("--budget", self.budget, bound or dog, "constrained decoding"),
            (
                "--encoder",
                self.encoder,
                self.method in ("retrieval", "dog"),
                "--method retrieval and --method dog",
            ),
            *((flag, given, dog, "--method dog") for flag, given in self.dog.given()),
            ("--reasoner", self.reasoner, walks, "--method kg-cot, ensemble and auto"),
            ("--paths-each", self.paths_each, walks, "--method kg-cot, ensemble and auto"),
            (
                "--cap",
                self.cap,
                self.method in ("retrieval", "dog") or self.all_paths,
                "--method retrieval, --method dog and --all-paths",
            ),
            ("--prompt-tokens", self.prompt_tokens, self.all_paths, "--all-paths"),
            (
                "--samples",
                self.samples,
                self.method == "self-consistency",
                "--method self-consistency",
            ),
        ):
            if given and not fits:
                raise UsageError(f"{flag} belongs to {of}.", f"Leave {flag} out.")
        needs = "--all-paths" if self.all_paths else f"--method {self.method}"
        if (self.all_paths or self.method in BASELINES) and not self._general_name(run):
            raise UsageError(
                f"{needs} is answered by a general LLM, and none is named.",
                "Name one: --general-model NAME, with OPENAI_BASE_URL for a server of your own.",
            )

    def _general_name(self, run: Run) -> str | None:
        return self.general or run.settings.general_model
