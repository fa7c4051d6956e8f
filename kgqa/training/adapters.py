"""Training a KG-LLM: question files and a KG give examples; these train an adapter."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kgqa.errors import AdapterMismatchError, DataError
from kgqa.methods.base import path_format, walk_rules
from kgqa.models.adapter import ADAPTERS, AdapterCard, preset
from kgqa.models.prompt import GRAPH
from kgqa.progress import Progress, Silent
from kgqa.questions.base import Question, is_held_out
from kgqa.questions.graphs import own_store
from kgqa.records import record_line
from kgqa.training.chains import ChainExample, ChainReport, build_chains
from kgqa.training.data import DataReport, Example, build_examples, read_file, without_repeats
from kgqa.training.options import CHAIN_PRESETS, AdapterTraining, ExampleOptions
from kgqa.training.reports import AdapterReport, ExamplesReport

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.graph.model import KGInfo
    from kgqa.graph.store import GraphStore
    from kgqa.methods.dog.graph import GraphFilter
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.walk import WalkRules


def rules_of(info: KGInfo, card: AdapterCard, options: ExampleOptions) -> WalkRules:
    """Return the walk rules of examples: from the options, then the KG and the card.

    A KG states its own walk direction; only a published preset overrides it.
    """
    published = options.preset not in (None, *CHAIN_PRESETS)
    return walk_rules(info, card, options, card_decides=published)


def about(info: KGInfo) -> str:
    """Return a KG's entry in a model card: its name, source, licence, size and version."""
    licence = f", licence {info.licence}" if info.licence else ""
    return f"{info.name} ({info.source}{licence}), {info.edges} edges, version {info.version[:12]}"


@dataclass(slots=True)
class Gathered:
    """Training examples, held-out examples (one a question), and a description of both."""

    train: list[Example | ChainExample] = field(default_factory=list)
    held: list[Example | ChainExample] = field(default_factory=list)
    described: dict[str, Any] = field(default_factory=dict)


def gather(
    store: GraphStore | None,
    card: AdapterCard,
    options: ExampleOptions,
    *,
    graphs: GraphFilter | None,
    progress: Progress,
) -> Gathered:
    """Make the examples that ``options`` select, those of held-out questions apart.

    Repeated examples, and those that ask what a held-out question asks, are left out. ``store`` may
    be None if ``options.needs_store`` is false. ``graphs`` filters the graphs of prompts, for
    chains; None: no chains. Raises DataError, GraphError.
    """
    gathered = Gathered()
    reports = [DataReport() if graphs is None else ChainReport() for _ in range(2)]
    if graphs is not None:
        gathered.described["graph of a prompt"] = (
            f"at most {graphs.most} triplets, chosen by {graphs.encoder.name}"
        )

    def add(store: GraphStore, asked: Sequence[Question], apart: bool) -> None:
        """Make the examples of questions in one graph; ``apart``: they are held out.

        Of a held-out question only the first example is kept.
        """
        rules = rules_of(store.info, card, options)
        shown = progress if len(asked) > 1 else Silent()
        questions = []
        with shown.task("looking up entities", len(asked), "questions") as task:
            for question in asked:
                questions.append(file.in_graph(store, question))
                task.advance()
        made: Sequence[Example | ChainExample]
        report: DataReport
        if graphs is not None:
            made, report = build_chains(
                store, questions, rules, graphs,
                per_question=options.per_question or 1, seed=options.seed, progress=shown,
            )  # fmt: skip
        else:
            selection, per_question = options.selection
            made, report = build_examples(
                store, questions, rules, path_format(card),
                per_question=per_question, selection=selection, seed=options.seed, progress=shown,
            )  # fmt: skip
        reports[apart].add(report)
        if apart:
            firsts: dict[str, Example | ChainExample] = {}
            for example in made:
                firsts.setdefault(example.question_id, example)
            gathered.held += firsts.values()
        else:
            gathered.train += made

    for form, path in options.files:
        file = read_file(path, form, options.topics if form == "jsonl" else None, progress)
        for apart in (False, True):
            mine = [
                question
                for question in file.questions
                if (options.held_out and is_held_out(question.id)) == apart
            ]
            loaded = [question for question in mine if question.graph is None]
            if store is not None and loaded:
                add(store, loaded, apart)
            for question in mine:
                if question.graph is not None:
                    with own_store(question) as graph:
                        add(graph, [question], apart)
    report, held_report = reports
    progress.note(str(report))
    files = ", ".join(path.name for _, path in options.files)
    held = f"{held_report.used} questions, a fixed fifth by the hash of the id"
    gathered.described |= {
        "questions": f"{report.used} of {report.questions} in {files}",
        "held out": held if options.held_out else "none",
        "KG": "of each question its own graph" if store is None else about(store.info),
    }
    if store is not None:
        rules = rules_of(store.info, card, options)
        gathered.described["paths"] = (
            f"at most {rules.hops} hops, direction {rules.direction}, mediators {rules.mediators}"
        )
    count = len(gathered.train)
    gathered.train = without_repeats(gathered.train, gathered.held)
    if len(gathered.train) < count:
        progress.note(
            f"{count - len(gathered.train):,} examples were left out: repeated, or asking what a "
            "held-out question asks."
        )
    return gathered


def training_examples(
    store: GraphStore | None,
    options: ExampleOptions,
    out: Path,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
) -> ExamplesReport:
    """Write the selected examples to the JSON-lines file ``out`` for inspection.

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
                file.write(record_line(asdict(example)))
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
    :func:`kgqa.models.kg_llm.load_kg_llm`. A stopped run resumes from its last checkpoint. Raises
    DataError, GraphError, ModelError, UsageError.
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
        path_format(card),
        out,
        options.settings,
        data=gathered.described,
        start_from=start,
        progress=progress,
    )


def _graph_filter(
    card: AdapterCard, options: ExampleOptions, device: str | None, cache: Path, progress: Progress
) -> GraphFilter | None:
    """Return the filter for the graphs in prompts of chains, loaded; None for other methods."""
    if options.method != "dog":
        return None
    from kgqa.methods.dog.graph import TRIPLETS, GraphFilter
    from kgqa.models.sentences import load_sentence_encoder

    encoder = load_sentence_encoder(options.encoder, device=device, cache=cache, progress=progress)
    most = options.triplets or TRIPLETS
    return GraphFilter(encoder, path_format(card), hops=options.hops or card.hops, most=most)


def _model(
    options: AdapterTraining,
    start: Path | None,
    device: str | None,
    cache: Path,
    progress: Progress,
) -> KgLLM:
    """Load the model to train, with the card of the adapter in ``start`` or of the preset.

    The adapter itself is not loaded. Raises AdapterMismatchError if it does not fit.
    """
    from kgqa.models.kg_llm import NO_ADAPTER, load_kg_llm
    from kgqa.models.locate import same_base

    def loaded() -> KgLLM:
        """Load the base model without an adapter."""
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
