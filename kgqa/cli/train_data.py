"""What ``kgqa train`` shares: question files and KGs → examples to train on and to hold out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kgqa.cli import llm, train_chains
from kgqa.cli.train_flags import nothing_to_train_on
from kgqa.cli.train_questions import TrainForm, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kgqa.cli.common import Run
    from kgqa.graph.store import GraphStore
    from kgqa.methods.dog.graph import GraphFilter
    from kgqa.models.adapter import AdapterCard
    from kgqa.paths.walk import WalkRules
    from kgqa.questions import Question
    from kgqa.training.chains import ChainExample
    from kgqa.training.check import HeldOut
    from kgqa.training.data import DataReport, Example, Selection, TrainingQuestion

    _ExampleT = TypeVar("_ExampleT", Example, ChainExample)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What the flags say about where examples come from; None is the default."""

    questions: tuple[Path, ...] = ()
    form: TrainForm = "jsonl"
    topics: Path | None = None
    by_itself: bool = False
    templates: Path | None = None
    general_model: str | None = None
    phrased: int = 400
    method: str = "gcr"
    preset: str | None = None
    hops: int | None = None
    direction: str | None = None
    mediators: str | None = None
    paths: Selection | None = None
    per_question: int | None = None
    per_relation: int = 12
    per_pair: int = 2
    topics_of_kg: int = 20_000
    triplets: int | None = None
    encoder: str | None = None
    held_out: bool = True
    seed: int = 0

    def check(self) -> None:
        """Raise UsageError for what cannot be meant, before anything is opened."""
        from kgqa.errors import UsageError
        from kgqa.models.presets import preset

        if not self.questions and not self.by_itself:
            raise nothing_to_train_on()
        if self.topics is not None and self.form != "jsonl":
            raise UsageError(
                f"A file of topic entities (--topics) is not for the form {self.form}, which has "
                "its own.",
                "Leave out --topics.",
            )
        if self.general_model is not None and not self.by_itself:
            raise UsageError(
                "--general-model phrases questions that are made from the KG, and none are.",
                "Add --self.",
            )
        if self.preset is not None:
            preset(self.preset)
        train_chains.check(self)

    @property
    def prompt_preset(self) -> str | None:
        """The preset whose prompt is asked with: chains have theirs."""
        if self.method == "dog":
            return self.preset or train_chains.PRESETS[0]
        return self.preset

    def rules(self, store: GraphStore, card: AdapterCard) -> WalkRules:
        """Return which walks of a graph are paths."""
        return llm.walk_rules(
            store.info,
            card,
            self.hops,
            self.direction,
            self.mediators,
            # in which direction a KG is walked it says itself, whatever prompt it is asked with
            card_decides=self.preset not in (None, *train_chains.PRESETS),
        )

    def selection(self) -> tuple[Selection, int | None]:
        """Return which paths become examples, and how many of a question (None: all)."""
        published = self.preset == "gcr"
        paths: Selection = self.paths or ("shortest" if published else "best")
        if self.per_question is not None:
            return paths, self.per_question
        return paths, None if paths == "shortest" else 4


@dataclasses.dataclass(slots=True)
class Gathered:
    """Examples, held-out ones (one of a question), what to check by, and a description of it."""

    train: list[Example | ChainExample] = dataclasses.field(default_factory=list)
    held: list[Example | ChainExample] = dataclasses.field(default_factory=list)
    checks: list[HeldOut] = dataclasses.field(default_factory=list)
    described: dict[str, Any] = dataclasses.field(default_factory=dict)
    graphs: GraphFilter | None = None  # chooses the graphs of prompts, for chains


def gather(run: Run, store: GraphStore | None, card: AdapterCard, source: Source) -> Gathered:
    """Return the examples that ``source`` names; ``store`` is None where no question needs one."""
    from kgqa.training.data import DataReport, without_repeats

    gathered = Gathered()
    report, held_report = DataReport(), DataReport()
    if source.method == "dog":
        from kgqa.training.chains import ChainReport

        report, held_report = ChainReport(), ChainReport()
        gathered.graphs = train_chains.graph_filter(run, card, source)
        gathered.described["graph of a prompt"] = (
            f"at most {gathered.graphs.most} triplets, chosen by {gathered.graphs.encoder.name}"
        )
    for path in source.questions:
        _from_file(run, store, card, source, path, gathered, report, held_report)
    if source.questions:
        run.note(str(report))
        gathered.described |= {
            "questions": f"{report.used} of {report.questions} in "
            + ", ".join(path.name for path in source.questions),
            "held out": f"{held_report.used} questions, a fixed fifth by the hash of the id"
            if source.held_out
            else "none",
        }
    if store is not None:
        if source.by_itself:
            _from_kg(run, store, card, source, gathered)
        elif source.templates is not None and source.method != "dog":
            _from_templates(run, store, card, source, source.templates, gathered)
        gathered.described |= _about(store, source.rules(store, card))
    else:
        gathered.described["KG"] = "of each question its own graph"
    count = len(gathered.train)
    gathered.train = without_repeats(gathered.train, gathered.held)
    if len(gathered.train) < count:
        run.note(
            f"{count - len(gathered.train):,} examples were left out: said before, or asking what "
            "a held-out question asks."
        )
    return gathered


def needs_store(source: Source) -> bool:
    """Return whether examples come from the loaded KG, not only from questions' own graphs."""
    made = source.by_itself or (source.templates is not None and source.method != "dog")
    return source.form != "rog" or made


def _about(store: GraphStore, rules: WalkRules) -> dict[str, Any]:
    info = store.info
    licence = f", licence {info.licence}" if info.licence else ""
    return {
        "KG": f"{info.name} ({info.source}{licence}), {info.edges} edges, "
        f"version {info.version[:12]}",
        "paths": f"at most {rules.hops} hops, direction {rules.direction}, mediators "
        f"{rules.mediators}",
    }


def _from_file(
    run: Run,
    store: GraphStore | None,
    card: AdapterCard,
    source: Source,
    path: Path,
    gathered: Gathered,
    report: DataReport,
    held_report: DataReport,
) -> None:
    from kgqa.questions.own_graph import own_store
    from kgqa.training.check import always_open
    from kgqa.training.data import is_held_out

    read, convert = read_file(run, path, source.form, source.topics)
    own = [one for one in read if one.graph is not None]
    loaded = [one for one in read if one.graph is None]
    for apart in (False, True):
        into = held_report if apart else report
        mine = [one for one in loaded if (source.held_out and is_held_out(one.id)) == apart]
        if store is not None and mine:
            questions = _told(run, "looking up entities", mine, lambda one: convert(store, one))
            _add(run, store, card, source, questions, apart, gathered, into, always_open(store))
        for one in own:
            if (source.held_out and is_held_out(one.id)) == apart:
                with own_store(one) as graph:
                    opened = _opener(one)
                    _add(
                        run,
                        graph,
                        card,
                        source,
                        [convert(graph, one)],
                        apart,
                        gathered,
                        into,
                        opened,
                    )


def _told(run: Run, what: str, items: Sequence[Any], do: Callable[[Any], Any]) -> list[Any]:
    """Return ``do`` of each of ``items``, under a task that tells how far it is."""
    done = []
    with run.progress.task(what, len(items), "questions") as task:
        for one in items:
            done.append(do(one))
            task.advance()
    return done


def _opener(question: Question) -> Callable[[], Any]:
    from kgqa.questions.own_graph import own_store

    return lambda: own_store(question)


def _add(
    run: Run,
    store: GraphStore,
    card: AdapterCard,
    source: Source,
    questions: Sequence[TrainingQuestion],
    apart: bool,
    gathered: Gathered,
    report: DataReport,
    opened: Callable[[], Any],
) -> None:
    """Add the examples of ``questions`` to what is trained on, or to what is held out."""
    from kgqa.progress import Silent
    from kgqa.training.check import held_out_of
    from kgqa.training.data import build_examples

    if gathered.graphs is not None:
        chains = train_chains.chains_of(
            run, store, source, source.rules(store, card), questions, gathered.graphs, report
        )
        if apart:
            gathered.held += _firsts(chains)
        else:
            gathered.train += chains
        return
    paths, per_question = source.selection()
    examples, found = build_examples(
        store,
        questions,
        source.rules(store, card),
        llm.path_format(card),
        per_question=per_question,
        selection=paths,
        seed=source.seed,
        progress=run.progress if len(questions) > 1 else Silent(),
    )
    report.add(found)
    if not apart:
        gathered.train += examples
        return
    gathered.checks += held_out_of(examples, opened)
    gathered.held += _firsts(examples)


def _firsts(examples: Iterable[_ExampleT]) -> list[_ExampleT]:
    """Return the first example of each question."""
    first: dict[str, _ExampleT] = {}
    for example in examples:
        first.setdefault(example.question_id, example)
    return list(first.values())


def _from_kg(
    run: Run, store: GraphStore, card: AdapterCard, source: Source, gathered: Gathered
) -> None:
    """Add examples made from the KG; they are split too where no file holds questions out."""
    from kgqa.cli.making import general_llm
    from kgqa.training.check import always_open, held_out_of
    from kgqa.training.data import is_held_out
    from kgqa.training.phrasing import phrased
    from kgqa.training.self_made import SelfMadeOptions, self_made
    from kgqa.training.templates import read_phrases

    phrases = read_phrases(source.templates) if source.templates is not None else {}
    options = SelfMadeOptions(
        per_relation=source.per_relation,
        per_path=source.per_pair,
        topics=source.topics_of_kg,
        seed=source.seed,
    )
    rules, form = source.rules(store, card), llm.path_format(card)
    made = self_made(store, rules, form, phrases, options, run.progress)
    examples = made.examples
    said = (
        f"{len(examples):,} examples made from the KG, of {made.relations:,} of its "
        f"{made.of_relations:,} relations"
    )
    if (general := general_llm(run, source.general_model)) is not None:
        with general:
            examples, told = phrased(examples, general, source.phrased, run.progress)
        said += (
            f"; {general.model} put {told.phrased:,} into other words, {told.malformed:,} of its "
            f"answers were malformed and not used, {told.cached:,} were known from before"
        )
    run.note(said + ".")
    gathered.described["made from the KG"] = said
    split = source.held_out and not source.questions
    apart = [one for one in examples if split and is_held_out(one.question_id)]
    gathered.train += [one for one in examples if not (split and is_held_out(one.question_id))]
    if not apart:
        return
    # one entity may be asked about by several questions, and each is a question of its own here
    numbered = [
        dataclasses.replace(one, question_id=f"{one.question_id}:{number}")
        for number, one in enumerate(apart)
    ]
    gathered.checks += held_out_of(numbered, always_open(store))
    gathered.held += apart
    gathered.described["held out"] = f"the questions about {len({o.head for o in apart})} entities"


def _from_templates(
    run: Run,
    store: GraphStore,
    card: AdapterCard,
    source: Source,
    templates: Path,
    gathered: Gathered,
) -> None:
    from kgqa.training.templates import read_phrases, templated_examples

    made = templated_examples(
        store,
        source.rules(store, card),
        llm.path_format(card),
        read_phrases(templates),
        per_relation=source.per_relation,
        per_pair=source.per_pair,
        seed=source.seed,
        progress=run.progress,
    )
    run.note(f"{len(made):,} examples made from the phrases of {templates.name}.")
    gathered.described["made from phrases"] = f"{len(made)} examples, by {templates.name}"
    gathered.train += made
