"""What ``kgqa train --method dog`` adds: chains in place of paths, and the flags that they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.cli import llm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.cli.common import Run
    from kgqa.cli.train_data import Source
    from kgqa.graph.store import GraphStore
    from kgqa.methods.dog.graph import GraphFilter
    from kgqa.models.adapter import AdapterCard
    from kgqa.paths.walk import WalkRules
    from kgqa.training.chains import ChainExample
    from kgqa.training.data import DataReport, TrainingQuestion


PRESETS = ("dog-short", "dog")  # the prompts of chains, the one that is usual first


def check(source: Source) -> None:
    """Raise UsageError for flags that one method has and the other one has not."""
    from kgqa.errors import UsageError

    if source.method == "dog":
        idle = {
            "--self": source.by_itself,
            "--paths": source.paths is not None,
            f"--preset {source.preset}": source.preset not in (None, *PRESETS),
        }
        for flag, given in idle.items():
            if given:
                raise UsageError(
                    f"{flag} has no meaning with --method dog: a chain follows the relation path "
                    "that fits a question's answers best, and has a prompt of its own.",
                    f"Leave out {flag}.",
                )
        return
    if source.preset in PRESETS:
        raise UsageError(f"--preset {source.preset} is a prompt for chains.", "Say --method dog.")
    for flag, value in (("--triplets", source.triplets), ("--encoder", source.encoder)):
        if value is not None:
            raise UsageError(
                f"{flag} is for --method dog, whose prompts have a graph in them.",
                f"Leave out {flag}, or say --method dog.",
            )


def check_loss(method: str, loss: str) -> None:
    """Raise UsageError where a loss is not for what is learnt."""
    from kgqa.errors import UsageError

    if method == "dog" and loss != "path":
        raise UsageError(
            f"--loss {loss} is for paths: the names in a chain stand in its prompt.",
            "Leave out --loss.",
        )


def graph_filter(run: Run, card: AdapterCard, source: Source) -> GraphFilter:
    """Return what chooses the graphs of prompts, as `kgqa ask --method dog` has it."""
    from kgqa.methods.dog.graph import TRIPLETS, GraphFilter
    from kgqa.models.sentences import load_sentence_encoder

    encoder = load_sentence_encoder(
        source.encoder,
        device=run.settings.device,
        cache=run.settings.cache_folder,
        progress=run.progress,
    )
    hops = source.hops or card.hops
    return GraphFilter(encoder, llm.path_format(card), hops=hops, most=source.triplets or TRIPLETS)


def chains_of(
    run: Run,
    store: GraphStore,
    source: Source,
    rules: WalkRules,
    questions: Sequence[TrainingQuestion],
    graphs: GraphFilter,
    report: DataReport,
) -> list[ChainExample]:
    """Return the chains of ``questions``; ``report`` counts what became of them."""
    from kgqa.progress import Silent
    from kgqa.training.chains import build_chains
    from kgqa.training.templates import read_phrases

    chains, found = build_chains(
        store,
        questions,
        rules,
        graphs,
        phrases=read_phrases(source.templates) if source.templates is not None else None,
        per_question=source.per_question or 1,
        seed=source.seed,
        progress=run.progress if len(questions) > 1 else Silent(),
    )
    report.add(found)
    return chains
