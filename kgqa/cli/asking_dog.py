"""The flags of ``--method dog``, and the method made of them.

What this does not do: bind the name to the maker, or check flags of other methods
(``kgqa.cli.asking``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.cli.asking import Flags
    from kgqa.cli.making import Parts, Ready
    from kgqa.graph.store import GraphStore
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.walk import WalkRules

PRESET = "dog"
ADAPTER = "freebase-chains"  # the offline model's, bundled, where nothing else is named

BeamsFlag = Annotated[
    int | None, typer.Option(help="dog: chains, and triplets tried at each step (3).", min=1)
]
StepsFlag = Annotated[
    int | None, typer.Option(help="dog: triplets of a chain at most (5).", min=1, max=64)
]
TripletsFlag = Annotated[
    int | None,
    typer.Option(
        help="dog: triplets of the graph in the prompt (120, or as it was trained).", min=1
    ),
]
VisibilityFlag = Annotated[
    Literal["full", "local"] | None,
    typer.Option(help="dog: the prompt shows its whole graph, or only what was come to (full)."),
]
WalkFlag = Annotated[
    Literal["breadth", "depth", "random", "filtered", "store"] | None,
    typer.Option(
        help="Which paths a --sample has: the first ones (breadth, depth), or random walks. dog: "
        "walk in the prompt's graph (filtered) or in all of it (store)."
    ),
]


@dataclass(frozen=True, slots=True)
class DogFlags:
    """What the flags say about Decoding on Graphs. None is the default of each."""

    beams: int | None = None
    steps: int | None = None
    walk: Literal["filtered", "store"] | None = None
    visibility: Literal["full", "local"] | None = None
    triplets: int | None = None

    def given(self) -> list[tuple[str, Any]]:
        """Return each flag with its value."""
        return [
            ("--beams", self.beams),
            ("--steps", self.steps),
            (f"--walk {self.walk}", self.walk),
            ("--visibility", self.visibility),
            ("--triplets", self.triplets),
        ]


def split_walk(walk: str | None) -> tuple[str | None, Literal["filtered", "store"] | None]:
    """Return what ``--walk`` says of a sample, and of the graph to walk in."""
    graphs: tuple[Literal["filtered", "store"], ...] = ("filtered", "store")
    for one in graphs:
        if walk == one:
            return None, one
    return walk, None


def check(flags: Flags) -> None:
    """Raise UsageError where a preset, or the direction, does not go with the method."""
    from kgqa.errors import UsageError
    from kgqa.models.presets import preset
    from kgqa.models.prompt import GRAPH

    name = flags.wanted.preset
    shows = name is not None and GRAPH in preset(name).prompt
    if shows and flags.method != "dog":
        raise UsageError(
            f"The preset {name} has a graph in its prompt; it belongs to --method dog.",
            f"Leave --preset {name} out, or add --method dog.",
        )
    if name is not None and not shows and flags.method == "dog":
        raise UsageError(
            f"The preset {name} has no place for a graph in its prompt, and --method dog needs "
            "one.",
            f"Leave --preset {name} out, or use --preset {PRESET}.",
        )
    if flags.method == "dog" and flags.wanted.direction == "in":
        raise UsageError(
            "Triplets are written as they are stored, so --method dog has no direction 'in'.",
            "Leave --direction out: a triplet is taken at either end in any case.",
        )


def make_dog(parts: Parts) -> Ready:
    """Load the model and the sentence encoder, and make the method of them."""
    from dataclasses import replace

    from kgqa.cli.llm import path_format
    from kgqa.methods.dog.graph import CANDIDATES, TRIPLETS, GraphFilter
    from kgqa.methods.dog.method import Dog, DogOptions
    from kgqa.models.profile import plan_for
    from kgqa.models.sentences import load_sentence_encoder
    from kgqa.trie.lexicon import PathLexicon

    run, flags = parts.run, parts.flags
    kg_llm = _load(parts)
    encoder = load_sentence_encoder(
        flags.encoder,
        device=run.settings.device,
        cache=run.settings.cache_folder,
        progress=run.progress,
    )
    card = kg_llm.card
    form = path_format(replace(card, start="", end=""))  # triplets stand in literal markers
    given = flags.dog
    default = DogOptions()
    options = DogOptions(
        beams=given.beams or default.beams,
        steps=given.steps or default.steps,
        walk=given.walk or default.walk,
        visibility=given.visibility or default.visibility,
        time_limit=flags.time_limit,
    )
    chosen = GraphFilter(
        encoder,
        form,
        hops=flags.wanted.hops or card.hops,
        cap=flags.cap or CANDIDATES,
        most=given.triplets or card.triplets or TRIPLETS,
    )
    plan = plan_for(kg_llm, progress=run.progress, budget=flags.budget)
    lexicon = PathLexicon(kg_llm.encoder, form)
    method = Dog(kg_llm, lexicon, _walks(parts), chosen, plan, options)
    settings = {
        "k": None,
        "preset": flags.wanted.preset or (None if kg_llm.adapter else PRESET),
        "model": kg_llm.name,
        "adapter": kg_llm.adapter,
        "quantize": flags.quantize,
        "score_rule": card.score_rule,
        "beams": options.beams,
        "steps": options.steps,
        "walk": options.walk,
        "visibility": options.visibility,
        "triplets": chosen.most,
        "cap": chosen.cap,
        "encoder": encoder.name,
        "time_limit": flags.time_limit,
    }
    return parts.ready(method, card, settings)


def _load(parts: Parts) -> KgLLM:
    """Load the model: the offline one with the bundled chains' adapter, another as it comes.

    An adapter that is named counts where its prompt has a graph in it; ``--preset dog`` asks the
    offline model as it comes, too.
    """
    from dataclasses import replace

    from kgqa.models.presets import preset
    from kgqa.models.prompt import GRAPH

    flags = parts.flags
    wanted, settings = flags.wanted, parts.run.settings
    if not (wanted.adapter or settings.adapter or wanted.preset):
        if wanted.model or settings.model:
            wanted = replace(wanted, preset=PRESET)
        else:
            wanted = replace(wanted, adapter=ADAPTER)
    kg_llm = wanted.load(parts.run, flags.quantize)
    if GRAPH not in kg_llm.card.prompt:
        kg_llm = kg_llm.with_card(preset(PRESET))
    card = kg_llm.card
    if card.chat and not kg_llm.tokenizer.chat_template:  # a model that only goes on with a text
        reply = card.reply if card.reply.startswith("\n") else f"\n{card.reply}"
        kg_llm = kg_llm.with_card(replace(card, chat=False, reply=reply))
    return kg_llm


def _walks(parts: Parts) -> Callable[[GraphStore], WalkRules]:
    """Return the walk rules of a store: its own direction, whatever a preset says of it."""
    from kgqa.paths.walk import WalkRules

    wanted = parts.flags.wanted

    def walks(store: GraphStore) -> WalkRules:
        direction: Any = wanted.direction or store.info.direction
        mediators: Any = wanted.mediators or "collapse"
        return WalkRules(wanted.hops or 2, direction, mediators)

    return walks
