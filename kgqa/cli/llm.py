"""What commands share about the KG-LLM: its card, the walk rules and the index that follow."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from kgqa.cli.common import Run
    from kgqa.graph.model import KGInfo
    from kgqa.models.adapter import AdapterCard
    from kgqa.models.kg_llm import KgLLM, Quantize
    from kgqa.paths.format import PathFormat
    from kgqa.paths.sample import Sample
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.index.manifest import IndexKey
    from kgqa.trie.tokens import TokenEncoder

SampleFlag = Annotated[
    int | None,
    typer.Option(help="Not all paths: at most so many of each entity.", min=1),
]
WalkFlag = Annotated[
    Literal["breadth", "depth", "random"] | None,
    typer.Option(help="Which paths a sample has: the first ones, or random walks."),
]
SeedFlag = Annotated[
    int | None, typer.Option(help="Seed of a sample by random walks (0 without it).", min=0)
]
TimeLimitFlag = Annotated[
    float | None,
    typer.Option(help="Seconds that decoding a question may take; then it is an error.", min=0.001),
]
BudgetFlag = Annotated[
    int | None,
    typer.Option(help="Tokens that look-ahead fills a forward up to (measured without it).", min=1),
]
QuantizeFlag = Annotated[
    Literal["4bit", "8bit"] | None,
    typer.Option(help="Load the KG-LLM's weights in 4 or 8 bits (needs bitsandbytes)."),
]


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What the flags of a command say about the KG-LLM and the walks; None is the default."""

    model: str | None = None
    adapter: str | None = None
    preset: str | None = None
    hops: int | None = None
    direction: str | None = None
    mediators: str | None = None
    sample: int | None = None
    walk: str | None = None
    seed: int | None = None

    def check(self) -> None:
        """Raise UsageError for what cannot be meant, before anything is loaded."""
        from kgqa.models.presets import preset

        if self.preset:
            preset(self.preset)
        self.sampled()

    def sampled(self) -> Sample | None:
        """Return the sample of paths that was asked for, None where all are meant."""
        return sample_of(self.sample, self.walk, self.seed)

    def load(self, run: Run, quantize: Quantize | None = None) -> KgLLM:
        """Load the KG-LLM."""
        return load(run, self.model, self.adapter, self.preset, quantize)

    def rules(self, info: KGInfo, card: AdapterCard) -> WalkRules:
        """Return which walks are paths."""
        return walk_rules(
            info,
            card,
            self.hops,
            self.direction,
            self.mediators,
            card_decides=self.preset is not None,
        )

    def build_command(self, run: Run) -> str:
        """Return the command that makes the index which the same flags would use."""
        from kgqa.errors import without_secrets

        options = run.options
        graph = without_secrets(options.graph) if options.graph else None
        flags = {"kg": options.kg, "graph": graph, "home": options.home, **dataclasses.asdict(self)}
        given = [f"--{flag} {shlex.quote(str(value))}" for flag, value in flags.items() if value]
        return " ".join(["kgqa precompute-tries", *given])


def load(
    run: Run,
    model: str | None,
    adapter: str | None,
    preset: str | None,
    quantize: Quantize | None = None,
) -> KgLLM:
    """Load the KG-LLM that the flags and the settings name."""
    from kgqa.models.kg_llm import load_kg_llm
    from kgqa.models.presets import preset as card_of

    settings = run.settings
    card = card_of(preset) if preset else None
    kg_llm = load_kg_llm(
        model or settings.model,
        adapter or settings.adapter,
        device=settings.device,
        cache=settings.cache_folder,
        progress=run.progress,
        quantize=quantize,
    )
    return kg_llm.with_card(card) if card else kg_llm


def path_format(card: AdapterCard) -> PathFormat:
    """Return the path format that a model was trained to write."""
    from kgqa.paths.format import PathFormat

    return PathFormat(start=card.start, end=card.end)


def walk_rules(
    info: KGInfo,
    card: AdapterCard,
    hops: int | None,
    direction: str | None,
    mediators: str | None,
    *,
    card_decides: bool,
) -> WalkRules:
    """Return which walks are paths: flags, then the KG's direction and the model's other rules.

    A KG says itself in which direction it is to be walked; only a preset that was asked for
    (``card_decides``) goes above that.
    """
    from kgqa.paths.walk import WalkRules

    return WalkRules(
        hops=card.hops if hops is None else hops,
        direction=direction or (card.direction if card_decides else info.direction),  # type: ignore[arg-type]
        mediators=mediators or card.mediators,  # type: ignore[arg-type]
    )


def sample_of(sample: int | None, walk: str | None, seed: int | None) -> Sample | None:
    """Return the sample of paths that the flags ask for, None where all are meant.

    Raises UsageError for a walk or a seed of a sample that was not asked for.
    """
    from kgqa.errors import UsageError
    from kgqa.paths.sample import Sample

    if sample is None:
        if walk is None and seed is None:
            return None
        flag = "--seed" if walk is None else "--walk"
        raise UsageError(
            f"{flag} says which paths a sample has, and none was asked for.",
            "Say how many paths of an entity: --sample 1000; without it a trie holds all.",
        )
    return Sample(sample, walk or "breadth", seed or 0)  # type: ignore[arg-type]


def index_key(
    info: KGInfo,
    encoder: TokenEncoder,
    form: PathFormat,
    rules: WalkRules,
    sample: Sample | None = None,
) -> IndexKey:
    """Return what an index must have been made for; one of a sample fits nothing else."""
    from kgqa.trie.index.manifest import IndexKey

    key = IndexKey(
        kg=info.name,
        kg_version=info.version,
        tokenizer=encoder.fingerprint,
        path_format=form.fingerprint,
        **dataclasses.asdict(rules),
    )
    if sample is None:
        return key
    return dataclasses.replace(key, walk=sample.walk, sample=sample.size, seed=sample.seed)
