"""Question files and a KG → examples to train a KG-LLM on, and what is held out of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from kgqa.questions.base import is_held_out
from kgqa.questions.graphs import own_store
from kgqa.training.chains import ChainReport, build_chains
from kgqa.training.check import always_open, held_out_of
from kgqa.training.data import DataReport, build_examples, without_repeats
from kgqa.training.options import CHAIN_PRESETS
from kgqa.training.phrasing import phrased
from kgqa.training.questions import read_file
from kgqa.training.self_made import SelfMadeOptions, self_made
from kgqa.training.templates import read_phrases, templated_examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from kgqa.graph.model import KGInfo
    from kgqa.graph.store import GraphStore
    from kgqa.methods.dog.graph import GraphFilter
    from kgqa.models.adapter import AdapterCard
    from kgqa.models.general import GeneralLLM
    from kgqa.progress import Progress
    from kgqa.questions.base import Question
    from kgqa.training.chains import ChainExample
    from kgqa.training.check import HeldOut
    from kgqa.training.data import Example, ExampleT, TrainingQuestion
    from kgqa.training.options import ExampleOptions
    from kgqa.training.questions import TrainingFile


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
    """Examples, held-out ones (one of a question), what to check by, and a description of it."""

    train: list[Example | ChainExample] = field(default_factory=list)
    held: list[Example | ChainExample] = field(default_factory=list)
    checks: list[HeldOut] = field(default_factory=list)
    described: dict[str, Any] = field(default_factory=dict)


def gather(
    store: GraphStore | None,
    card: AdapterCard,
    options: ExampleOptions,
    *,
    graphs: GraphFilter | None,
    general: GeneralLLM | None,
    progress: Progress,
) -> Gathered:
    """Return the examples that ``options`` name.

    ``store`` may be None if ``options.needs_store`` is false. ``graphs`` chooses the graphs of
    prompts, for chains. ``general`` puts questions made from the KG into other words.
    """
    gatherer = _Gatherer(card, options, graphs, progress)
    gathered = gatherer.gathered
    if graphs is not None:
        gathered.described["graph of a prompt"] = (
            f"at most {graphs.most} triplets, chosen by {graphs.encoder.name}"
        )
    if options.questions:
        gatherer.from_files(store)
    if store is not None:
        if options.self:
            gatherer.from_kg(store, general)
        elif options.from_templates and options.templates is not None:
            gatherer.from_templates(store, options.templates)
        rules = rules_of(store.info, card, options)
        gathered.described |= {
            "KG": about(store.info),
            "paths": f"at most {rules.hops} hops, direction {rules.direction}, mediators "
            f"{rules.mediators}",
        }
    else:
        gathered.described["KG"] = "of each question its own graph"
    count = len(gathered.train)
    gathered.train = without_repeats(gathered.train, gathered.held)
    if len(gathered.train) < count:
        progress.note(
            f"{count - len(gathered.train):,} examples were left out: repeated, or asking what a "
            "held-out question asks."
        )
    return gathered


class _Gatherer:
    """Adds the examples of each source to ``gathered``."""

    def __init__(
        self,
        card: AdapterCard,
        options: ExampleOptions,
        graphs: GraphFilter | None,
        progress: Progress,
    ) -> None:
        self._card = card
        self._form = format_of(card)
        self._options = options
        self._graphs = graphs
        self._progress = progress
        self.gathered = Gathered()

    def from_files(self, store: GraphStore | None) -> None:
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
                if store is not None:
                    self._asked_of_kg(store, file, mine, apart, into)
                for one in mine:
                    if one.graph is not None:
                        self._asked_of_own_graph(file, one, apart, into)
        self._progress.note(str(report))
        self.gathered.described |= {
            "questions": f"{report.used} of {report.questions} in "
            + ", ".join(path.name for _, path in options.files),
            "held out": f"{held_report.used} questions, a fixed fifth by the hash of the id"
            if options.held_out
            else "none",
        }

    def _asked_of_kg(
        self,
        store: GraphStore,
        file: TrainingFile,
        asked: Sequence[Question],
        apart: bool,
        report: DataReport,
    ) -> None:
        loaded = [one for one in asked if one.graph is None]
        if not loaded:
            return
        questions = []
        with self._progress.task("looking up entities", len(loaded), "questions") as task:
            for one in loaded:
                questions.append(file.in_graph(store, one))
                task.advance()
        self._add(store, questions, apart, report, always_open(store))

    def _asked_of_own_graph(
        self, file: TrainingFile, question: Question, apart: bool, report: DataReport
    ) -> None:
        with own_store(question) as graph:
            one = file.in_graph(graph, question)
            self._add(graph, [one], apart, report, lambda: own_store(question))

    def _add(
        self,
        store: GraphStore,
        questions: Sequence[TrainingQuestion],
        apart: bool,
        report: DataReport,
        opened: Callable[[], AbstractContextManager[GraphStore]],
    ) -> None:
        """Add the examples of ``questions`` to what is trained on, or to what is held out."""
        options, gathered = self._options, self.gathered
        rules = rules_of(store.info, self._card, options)
        progress = self._progress if len(questions) > 1 else Silent()
        if self._graphs is not None:
            phrases = read_phrases(options.templates) if options.templates is not None else None
            chains, found = build_chains(
                store,
                questions,
                rules,
                self._graphs,
                phrases=phrases,
                per_question=options.per_question or 1,
                seed=options.seed,
                progress=progress,
            )
            report.add(found)
            if apart:
                gathered.held += _firsts(chains)
            else:
                gathered.train += chains
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
            gathered.checks += held_out_of(examples, opened)
            gathered.held += _firsts(examples)
        else:
            gathered.train += examples

    def from_kg(self, store: GraphStore, general: GeneralLLM | None) -> None:
        """Add examples made from the KG; they are split too if no file holds questions out."""
        options, gathered = self._options, self.gathered
        phrases = read_phrases(options.templates) if options.templates is not None else {}
        amounts = SelfMadeOptions(
            per_relation=options.per_relation,
            per_path=options.per_pair,
            topics=options.entities,
            seed=options.seed,
        )
        rules = rules_of(store.info, self._card, options)
        made = self_made(store, rules, self._form, phrases, amounts, self._progress)
        examples = made.examples
        stated = (
            f"{len(examples):,} examples made from the KG, of {made.relations:,} of its "
            f"{made.of_relations:,} relations"
        )
        if general is not None:
            examples, calls = phrased(examples, general, options.phrased, self._progress)
            stated += (
                f"; {general.model} put {calls.phrased:,} into other words, {calls.malformed:,} of "
                f"its answers were malformed and not used, {calls.cached:,} were known from before"
            )
        self._progress.note(stated + ".")
        gathered.described["made from the KG"] = stated
        split = options.held_out and not options.questions
        apart = [one for one in examples if split and is_held_out(one.question_id)]
        gathered.train += [one for one in examples if not (split and is_held_out(one.question_id))]
        if not apart:
            return
        # one entity may be asked about by several questions, each a question of its own here
        numbered = [
            replace(one, question_id=f"{one.question_id}:{number}")
            for number, one in enumerate(apart)
        ]
        gathered.checks += held_out_of(numbered, always_open(store))
        gathered.held += apart
        heads = len({one.head for one in apart})
        gathered.described["held out"] = f"the questions about {heads} entities"

    def from_templates(self, store: GraphStore, templates: Path) -> None:
        """Add examples made from the phrases of a file."""
        options = self._options
        made = templated_examples(
            store,
            rules_of(store.info, self._card, options),
            self._form,
            read_phrases(templates),
            per_relation=options.per_relation,
            per_pair=options.per_pair,
            seed=options.seed,
            progress=self._progress,
        )
        self._progress.note(f"{len(made):,} examples made from the phrases of {templates.name}.")
        self.gathered.described["made from phrases"] = f"{len(made)} examples, by {templates.name}"
        self.gathered.train += made


def _firsts(examples: Iterable[ExampleT]) -> list[ExampleT]:
    """Return the first example of each question."""
    first: dict[str, ExampleT] = {}
    for example in examples:
        first.setdefault(example.question_id, example)
    return list(first.values())
