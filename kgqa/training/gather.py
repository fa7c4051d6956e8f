"""Question files and a KG → examples to train a KG-LLM on, and what is held out of them."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from kgqa.questions.base import is_held_out
from kgqa.questions.graphs import own_store
from kgqa.training.chains import ChainReport, build_chains
from kgqa.training.check import held_out_of
from kgqa.training.data import DataReport, build_examples, without_repeats
from kgqa.training.options import CHAIN_PRESETS
from kgqa.training.questions import read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from kgqa.graph.model import KGInfo
    from kgqa.graph.store import GraphStore
    from kgqa.methods.dog.graph import GraphFilter
    from kgqa.models.adapter import AdapterCard
    from kgqa.progress import Progress
    from kgqa.training.chains import ChainExample
    from kgqa.training.check import HeldOut
    from kgqa.training.data import Example, ExampleT, TrainingQuestion
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


class Gathered:
    """Examples, held-out ones (one of a question), what to check by, and a description of it."""

    def __init__(
        self,
        card: AdapterCard,
        options: ExampleOptions,
        graphs: GraphFilter | None,
        progress: Progress,
    ) -> None:
        self.train: list[Example | ChainExample] = []
        self.held: list[Example | ChainExample] = []
        self.checks: list[HeldOut] = []
        self.described: dict[str, Any] = {}
        self._card = card
        self._form = format_of(card)
        self._options = options
        self._graphs = graphs
        self._progress = progress

    def add_files(self, store: GraphStore | None) -> None:
        """Add what the question files give; of held-out questions apart from the rest."""
        options = self._options
        kind = DataReport if self._graphs is None else ChainReport
        report, held_report = kind(), kind()
        for form, path in options.files:
            topics = options.topics if form == "jsonl" else None
            file = read_file(path, form, topics, self._progress)
            for apart, into in ((False, report), (True, held_report)):
                mine = [
                    one
                    for one in file.questions
                    if (options.held_out and is_held_out(one.id)) == apart
                ]
                loaded = [one for one in mine if one.graph is None]
                if store is not None and loaded:
                    asked = []
                    with self._progress.task("looking up entities", len(loaded), "questions") as t:
                        for one in loaded:
                            asked.append(file.in_graph(store, one))
                            t.advance()
                    self._add(store, asked, apart, into, lambda: nullcontext(store))
                for one in mine:
                    if one.graph is not None:
                        with own_store(one) as graph:
                            opened = partial(own_store, one)
                            self._add(graph, [file.in_graph(graph, one)], apart, into, opened)
        self._progress.note(str(report))
        self.described |= {
            "questions": f"{report.used} of {report.questions} in "
            + ", ".join(path.name for _, path in options.files),
            "held out": f"{held_report.used} questions, a fixed fifth by the hash of the id"
            if options.held_out
            else "none",
        }

    def _add(
        self,
        store: GraphStore,
        questions: Sequence[TrainingQuestion],
        apart: bool,
        report: DataReport,
        opened: Callable[[], AbstractContextManager[GraphStore]],
    ) -> None:
        """Add the examples of ``questions`` to what is trained on, or to what is held out."""
        options = self._options
        rules = rules_of(store.info, self._card, options)
        progress = self._progress if len(questions) > 1 else Silent()
        if self._graphs is not None:
            chains, found = build_chains(
                store,
                questions,
                rules,
                self._graphs,
                per_question=options.per_question or 1,
                seed=options.seed,
                progress=progress,
            )
            report.add(found)
            if apart:
                self.held += _firsts(chains)
            else:
                self.train += chains
            return
        paths, per_question = options.selection
        examples, built = build_examples(
            store,
            questions,
            rules,
            self._form,
            per_question=per_question,
            selection=paths,
            seed=options.seed,
            progress=progress,
        )
        report.add(built)
        if apart:
            self.checks += held_out_of(examples, opened)
            self.held += _firsts(examples)
        else:
            self.train += examples


def gather(
    store: GraphStore | None,
    card: AdapterCard,
    options: ExampleOptions,
    *,
    graphs: GraphFilter | None,
    progress: Progress,
) -> Gathered:
    """Return the examples that ``options`` name.

    ``store`` may be None if ``options.needs_store`` is false. ``graphs`` chooses the graphs of
    prompts, for chains.
    """
    found = Gathered(card, options, graphs, progress)
    if graphs is not None:
        found.described["graph of a prompt"] = (
            f"at most {graphs.most} triplets, chosen by {graphs.encoder.name}"
        )
    found.add_files(store)
    if store is None:
        found.described["KG"] = "of each question its own graph"
    else:
        rules = rules_of(store.info, card, options)
        found.described |= {
            "KG": about(store.info),
            "paths": f"at most {rules.hops} hops, direction {rules.direction}, mediators "
            f"{rules.mediators}",
        }
    count = len(found.train)
    found.train = without_repeats(found.train, found.held)
    if len(found.train) < count:
        progress.note(
            f"{count - len(found.train):,} examples were left out: repeated, or asking what a "
            "held-out question asks."
        )
    return found


def _firsts(examples: Iterable[ExampleT]) -> list[ExampleT]:
    """Return the first example of each question."""
    first: dict[str, ExampleT] = {}
    for example in examples:
        first.setdefault(example.question_id, example)
    return list(first.values())
