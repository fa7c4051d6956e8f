"""Question files and a KG → examples to train a KG-LLM on, and what is held out of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from kgqa.questions.base import is_held_out
from kgqa.questions.graphs import own_store
from kgqa.training.chains import ChainReport, build_chains
from kgqa.training.data import DataReport, build_examples, without_repeats
from kgqa.training.options import CHAIN_PRESETS
from kgqa.training.questions import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import KGInfo
    from kgqa.graph.store import GraphStore
    from kgqa.methods.dog.graph import GraphFilter
    from kgqa.models.adapter import AdapterCard
    from kgqa.progress import Progress
    from kgqa.questions.base import Question
    from kgqa.training.chains import ChainExample
    from kgqa.training.data import Example
    from kgqa.training.options import ExampleOptions


def format_of(card: AdapterCard) -> PathFormat:
    """Return the path format that a model with ``card`` writes."""
    return PathFormat(start=card.start, end=card.end)


def rules_of(info: KGInfo, card: AdapterCard, options: ExampleOptions) -> WalkRules:
    """Return which walks of a KG are paths: the options, then the KG and the card.

    A KG says itself in which direction it is walked; only a published preset goes above that.
    """
    published = options.preset not in (None, *CHAIN_PRESETS)
    return WalkRules(
        hops=options.hops or card.hops,
        direction=options.direction or (card.direction if published else info.direction),
        mediators=options.mediators or card.mediators,
    )


def about(info: KGInfo) -> str:
    """Return what a model card says about the KG."""
    licence = f", licence {info.licence}" if info.licence else ""
    return f"{info.name} ({info.source}{licence}), {info.edges} edges, version {info.version[:12]}"


@dataclass(slots=True)
class Gathered:
    """Examples, held-out ones (one of a question), and a description of them."""

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
    """Return the examples that ``options`` name; of held-out questions apart from the rest.

    ``store`` may be None if ``options.needs_store`` is false. ``graphs`` chooses the graphs of
    prompts, for chains.
    """
    gathered = Gathered()
    reports = [DataReport() if graphs is None else ChainReport() for _ in range(2)]
    if graphs is not None:
        gathered.described["graph of a prompt"] = (
            f"at most {graphs.most} triplets, chosen by {graphs.encoder.name}"
        )

    def add(store: GraphStore, asked: Sequence[Question], apart: bool) -> None:
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
                store, questions, rules, format_of(card),
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
