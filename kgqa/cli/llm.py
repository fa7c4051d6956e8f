"""What commands share about the KG-LLM: its card, the walk rules and the index that follow."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from kgqa.answers.answer import SearchUse
    from kgqa.answers.vote import WeighOptions
    from kgqa.cli.common import Run
    from kgqa.graph.model import KGInfo
    from kgqa.methods.searches import SearchKind, SearchOptions
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
    int | None,
    typer.Option(help="Seed of what is drawn: random walks, --search sample (0).", min=0),
]
SearchFlag = Annotated[
    Literal["beam", "diverse", "exact", "sample"],
    typer.Option(help="beam; diverse: groups kept apart; exact: proven the best; sample: drawn."),
]
GroupsFlag = Annotated[
    int | None, typer.Option(help="Groups of --search diverse (as many as paths).", min=1)
]
PenaltyFlag = Annotated[
    float | None,
    typer.Option(help="What a group of --search diverse pays for another's token (1).", min=0.0),
]
MaxForwardsFlag = Annotated[
    int | None,
    typer.Option(help="End --search exact after so many forwards, proven or not.", min=1),
]
TimeLimitFlag = Annotated[
    float | None,
    typer.Option(help="Seconds that decoding a question may take; then it is an error.", min=0.001),
]
BudgetFlag = Annotated[
    int | None,
    typer.Option(help="Tokens that look-ahead fills a forward up to (measured without it).", min=1),
]
ExpandFlag = Annotated[
    bool,
    typer.Option(
        "--expand/--no-expand",
        help="Also what else a decoded relation path leads to; without it, decoded ends alone.",
    ),
]
CutFlag = Annotated[
    float | None,
    typer.Option(help="Answers weigh at least this part of the first one.", min=0.0, max=1.0),
]
DoubtFlag = Annotated[
    float | None,
    typer.Option(help="With a lower confidence there is no answer.", min=0.0, max=1.0),
]
MostTailsFlag = Annotated[
    int | None,
    typer.Option(help="A relation path with more ends is not expanded.", min=1),
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
    from kgqa.models.kg_llm import NO_ADAPTER, load_kg_llm
    from kgqa.models.presets import UNTUNED
    from kgqa.models.presets import preset as card_of

    settings = run.settings
    card = card_of(preset) if preset else None
    kg_llm = load_kg_llm(
        model or settings.model,
        adapter or settings.adapter or (NO_ADAPTER if preset in UNTUNED else None),
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


def seeds_of(
    search: SearchKind, sample: int | None, seed: int | None
) -> tuple[int | None, int | None]:
    """Return the seed of a sampled index and that of drawn paths: one flag for all that is drawn.

    Where neither is asked for the seed stays the sample's, which refuses it by name.
    """
    drawn = search == "sample"
    return None if drawn and sample is None else seed, seed if drawn else None


def search_of(
    kind: SearchKind,
    k: int,
    groups: int | None,
    diversity_penalty: float | None,
    seed: int | None,
    max_forwards: int | None,
) -> SearchOptions:
    """Return how the flags want paths to be searched for.

    Raises UsageError for what cannot be meant, before anything is loaded.
    """
    from kgqa.methods.searches import SearchOptions

    options = SearchOptions(kind, groups, diversity_penalty, seed, max_forwards)
    options.check(k)
    return options


def weighing(
    expand: bool, cut: float | None, doubt: float | None, most_tails: int | None
) -> WeighOptions | None:
    """Return how the flags want paths to become answers; None is a vote over decoded paths.

    Raises UsageError for a flag that a vote has no use for.
    """
    from kgqa.answers.aggregate import AggregateOptions
    from kgqa.answers.confidence import ConfidenceOptions
    from kgqa.answers.vote import WeighOptions
    from kgqa.errors import UsageError

    given = {"--cut": cut, "--doubt": doubt, "--most-tails": most_tails}
    if not expand:
        idle = [flag for flag, value in given.items() if value is not None]
        if idle:
            raise UsageError(
                f"{idle[0]} has no meaning with --no-expand, which counts decoded paths alone.",
                f"Leave out {idle[0]} or --no-expand.",
            )
        return None
    base, sure = AggregateOptions(), ConfidenceOptions()
    return WeighOptions(
        dataclasses.replace(base, most_tails=most_tails or base.most_tails),
        ConfidenceOptions(
            cut=sure.cut if cut is None else cut,
            cut_several=sure.cut_several if cut is None else cut,
            doubt=sure.doubt if doubt is None else doubt,
        ),
    )


def proof(search: SearchUse, paths: int, forwards: int) -> str:
    """Return what an exact search proved of its ``paths``, empty for a search that proves nothing.

    ``forwards``: those that it took.
    """
    if search.proven is None:
        return ""
    within = f"within {forwards:,} forward{'' if forwards == 1 else 's'}"
    if search.proven:
        return f"Exact search: proven {within} that no other path has a higher score."
    bound = "" if search.bound is None else f" (a better one can reach {search.bound:.3f} at most)"
    return (
        f"Exact search: not proven {within}{bound}; certain are the first {search.certain} of "
        f"{paths}. Allow more with --max-forwards."
    )


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
