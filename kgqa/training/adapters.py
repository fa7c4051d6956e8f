"""Training a KG-LLM on a KG and questions: :func:`train_adapter` and :func:`training_examples`."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from kgqa.errors import AdapterMismatchError, DataError
from kgqa.models.adapter import ADAPTERS, AdapterCard
from kgqa.models.presets import preset
from kgqa.models.prompt import GRAPH
from kgqa.training.gather import format_of, gather, rules_of
from kgqa.training.options import CHAIN_PRESETS
from kgqa.training.reports import ExamplesReport

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.methods.dog.graph import GraphFilter
    from kgqa.models.kg_llm import KgLLM
    from kgqa.progress import Progress
    from kgqa.training.options import AdapterTraining, ExampleOptions
    from kgqa.training.reports import AdapterReport


def training_examples(
    store: GraphStore | None,
    options: ExampleOptions,
    out: Path,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
) -> ExamplesReport:
    """Write the examples that ``options`` give into the JSON-lines file ``out``, to look at them.

    ``store`` may be None if ``options.needs_store`` is false. Raises DataError, GraphError,
    ModelError.
    """
    card = preset(options.prompt_preset) if options.prompt_preset else AdapterCard()
    graphs = _graph_filter(card, options, device, cache, progress)
    gathered = gather(store, card, options, graphs=graphs, progress=progress)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("w", encoding="utf-8") as file:
            for example in gathered.train:
                file.write(json.dumps(asdict(example), ensure_ascii=False) + "\n")
    except OSError as error:
        raise DataError(f"The file {out} cannot be written: {error.strerror}.") from None
    return ExamplesReport(
        examples=len(gathered.train), held_out=len(gathered.held), file=out, data=gathered.described
    )


def train_adapter(
    store: GraphStore | None,
    options: AdapterTraining,
    out: Path,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
) -> AdapterReport:
    """Train a LoRA adapter, or with ``full`` a whole model, into the folder ``out``.

    ``store`` as for :func:`training_examples`; ``device`` and ``cache`` as for
    :func:`kgqa.models.kg_llm.load_kg_llm`. A run that was stopped goes on from its last checkpoint.
    Raises DataError, GraphError, ModelError, UsageError.
    """
    from kgqa.models.kg_llm import adapter_folder
    from kgqa.training.fit import train

    start = adapter_folder(options.model, options.start_from) if options.start_from else None
    kg_llm = _model(options, start, device, cache, progress)
    graphs = _graph_filter(kg_llm.card, options, device, cache, progress)
    gathered = gather(store, kg_llm.card, options, graphs=graphs, progress=progress)
    card = kg_llm.card
    if store is not None:
        rules = rules_of(store.info, card, options)
        card = replace(card, hops=rules.hops, direction=rules.direction, mediators=rules.mediators)
    elif options.hops is not None:
        card = replace(card, hops=options.hops)
    if graphs is not None:  # it will be asked with a graph as large
        card = replace(card, triplets=graphs.most)
    return train(
        kg_llm.with_card(card),
        gathered.train,
        gathered.held,
        format_of(card),
        out,
        options.settings,
        data=gathered.described,
        start_from=start,
        progress=progress,
    )


def _graph_filter(
    card: AdapterCard, options: ExampleOptions, device: str | None, cache: Path, progress: Progress
) -> GraphFilter | None:
    if options.method != "dog":
        return None
    from kgqa.methods.dog.graph import TRIPLETS, GraphFilter
    from kgqa.models.sentences import load_sentence_encoder

    encoder = load_sentence_encoder(options.encoder, device=device, cache=cache, progress=progress)
    most = options.triplets or TRIPLETS
    return GraphFilter(encoder, format_of(card), hops=options.hops or card.hops, most=most)


def _model(
    options: AdapterTraining,
    start: Path | None,
    device: str | None,
    cache: Path,
    progress: Progress,
) -> KgLLM:
    """Load the model to train, asked as the adapter in ``start`` is, or by its preset."""
    from kgqa.models.kg_llm import NO_ADAPTER, load_kg_llm
    from kgqa.models.locate import same_base

    def loaded() -> KgLLM:
        return load_kg_llm(options.model, NO_ADAPTER, device=device, cache=cache, progress=progress)

    name = options.prompt_preset
    chains = name in CHAIN_PRESETS
    if start is None or (name is not None and not chains):
        return loaded().with_card(preset(name)) if name else loaded()
    card = ADAPTERS.card(start)
    if GRAPH in card.prompt and not chains:
        raise AdapterMismatchError(
            f"The adapter {start} was trained to write chains.",
            "Train it with the `method` that it was trained with: dog.",
        )
    if GRAPH not in card.prompt and chains and card.added_tokens:
        raise AdapterMismatchError(
            f"The adapter {start} writes paths between markers of its own, which chains do not "
            "have.",
            "Start from an adapter without added tokens, or leave out `start_from`.",
        )
    kg_llm = loaded()
    if not same_base(card.base_model, kg_llm.name):
        raise AdapterMismatchError(
            f"The adapter {start} was trained for {card.base_model}, and the model is "
            f"{kg_llm.name}.",
            f"Use the `model` {card.base_model}, or leave out `start_from`.",
        )
    if name is not None and GRAPH not in card.prompt:
        # which relations a question means is learnt already, how a chain is asked for is new
        return kg_llm.with_card(preset(name))
    return kg_llm.with_card(replace(card, base_model=""))
