"""``kgqa eval``: answer a file of questions and measure it, or compare two such runs."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kgqa.cli import asking, asking_dog, llm, making
from kgqa.cli.ask import find_topics
from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.answers.answer import Answer
    from kgqa.errors import KgqaError
    from kgqa.evaluation.report_record import Record
    from kgqa.graph.store import GraphStore
    from kgqa.methods.gcr import Asking
    from kgqa.questions.readers import Question, QuestionFile

Form = Literal[
    "jsonl",
    "webqsp",
    "webqsp-graph",
    "cwq-graph",
    "rog",
    "metaqa",
    "pathquestion",
    "commonsenseqa",
    "medqa",
    "2wiki",
]
_OWN = "own"  # the KG's name where each question has one


def evaluate(
    run: Run,
    form: Annotated[Form | None, typer.Argument(metavar="FORMAT", help="The file's form.")] = None,
    file: Annotated[Path | None, typer.Argument(help="The questions.")] = None,
    linked: Annotated[
        bool, typer.Option("--linked", help="Find topic entities, even where the file has them.")
    ] = False,
    hops: Annotated[int | None, typer.Option(help="Hops of a path at most.", min=1)] = None,
    k: Annotated[int, typer.Option(help="Paths to decode.", min=1)] = 10,
    method: asking.MethodFlag = "gcr",
    unconstrained: Annotated[
        bool, typer.Option("--unconstrained", help="Let the KG-LLM write without the constraint.")
    ] = False,
    all_paths: Annotated[
        bool, typer.Option("--all-paths", help="All paths to the general LLM; no KG-LLM.")
    ] = False,
    encoder: asking.EncoderFlag = None,
    reasoner: asking.ReasonerFlag = None,
    paths_each: asking.PathsEachFlag = None,
    beams: asking_dog.BeamsFlag = None,
    steps: asking_dog.StepsFlag = None,
    triplets: asking_dog.TripletsFlag = None,
    visibility: asking_dog.VisibilityFlag = None,
    cap: asking.CapFlag = None,
    prompt_tokens: Annotated[
        int | None, typer.Option(help="What --all-paths may fill of a prompt (2000).", min=1)
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Replies of --method self-consistency (5).", min=1)
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first questions.", min=1)] = None,
    split: Annotated[
        Literal["all", "validation", "rest"],
        typer.Option(help="Only the fifth that is never trained on, or the other four."),
    ] = "all",
    preset: Annotated[str | None, typer.Option(help="default or gcr.")] = None,
    model: Annotated[str | None, typer.Option(help="The KG-LLM.")] = None,
    adapter: Annotated[str | None, typer.Option(help="An adapter's folder, or 'none'.")] = None,
    general_model: Annotated[str | None, typer.Option(help="The general LLM.")] = None,
    concurrency: asking.ConcurrencyFlag = 8,
    answer_tokens: asking.AnswerTokensFlag = None,
    cache_calls: asking.CacheCallsFlag = True,
    search: llm.SearchFlag = "beam",
    groups: llm.GroupsFlag = None,
    diversity_penalty: llm.PenaltyFlag = None,
    max_forwards: llm.MaxForwardsFlag = None,
    expand: llm.ExpandFlag = True,
    cut: llm.CutFlag = None,
    doubt: llm.DoubtFlag = None,
    most_tails: llm.MostTailsFlag = None,
    direction: DirectionFlag = None,
    mediators: MediatorsFlag = None,
    sample: llm.SampleFlag = None,
    walk: asking_dog.WalkFlag = None,
    seed: llm.SeedFlag = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for a line per question and the reports; goes on from it."),
    ] = None,
    together: Annotated[
        int | None, typer.Option(help="Questions that share a forward.", min=1)
    ] = None,
    time_limit: llm.TimeLimitFlag = None,
    budget: llm.BudgetFlag = None,
    quantize: llm.QuantizeFlag = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Instead: the folders of two runs (--out) to compare."),
    ] = None,
) -> None:
    """Answer every question of a file; figures are percentages over all of them."""
    from kgqa.errors import UsageError

    if compare is not None:
        if form is not None or out is not None:
            raise UsageError(
                "--compare takes the folders of two runs and nothing else.",
                "kgqa eval --compare DIR DIR",
            )
        _compare(run, *compare)
        return
    if form is None or file is None:
        raise UsageError(
            "What is to be measured is missing.", "kgqa eval FORMAT FILE; see kgqa eval --help."
        )
    from kgqa.evaluation.metrics_summary import summarise
    from kgqa.evaluation.report import write_reports
    from kgqa.evaluation.report_log import RunLog
    from kgqa.evaluation.report_record import malformed_record
    from kgqa.evaluation.run import run_questions
    from kgqa.questions.readers import read_questions

    sample_walk, graph_walk = asking_dog.split_walk(walk)
    walk_seed, path_seed = llm.seeds_of(search, sample, seed)
    flags = asking.Flags(
        method=method,
        k=k,
        wanted=llm.Wanted(
            model, adapter, preset, hops, direction, mediators, sample, sample_walk, walk_seed
        ),
        general=general_model,
        searched=llm.search_of(search, k, groups, diversity_penalty, path_seed, max_forwards),
        weigh=llm.weighing(expand, cut, doubt, most_tails),
        unconstrained=unconstrained,
        all_paths=all_paths,
        encoder=encoder,
        reasoner=reasoner,
        paths_each=paths_each,
        cut=cut,
        dog=asking_dog.DogFlags(beams, steps, graph_walk, visibility, triplets),
        cap=cap,
        prompt_tokens=prompt_tokens,
        samples=samples,
        concurrency=concurrency,
        answer_tokens=answer_tokens,
        cache_calls=cache_calls,
        together=together,
        time_limit=time_limit,
        budget=budget,
        quantize=quantize,
    )
    flags.check(run)
    questions = _chosen(read_questions(file, form, limit), split)
    if questions.complaint():
        run.note(questions.complaint())
    with ExitStack() as stack:
        own = all(one.graph is not None for one in questions.questions)
        if own and sample is not None:
            raise UsageError(
                "--sample names an index of a KG, and each question of this file has a graph of "
                "its own.",
                "Leave --sample out.",
            )
        store = None if own else stack.enter_context(run.open_store())
        kg = _OWN if store is None else store.info.name
        ready = making.make_ready(run, flags, store, stack)
        asker = _Asker(run, ready, linked, given=method in asking.BASELINES)
        settings = {
            "form": form,
            "file": file.name,
            "file_sha256": _sha256(file),
            "split": split,
            "kg": kg,
            "kg_version": store.info.version if store is not None else None,
            "linked": linked,
            **ready.settings,
        }
        log = stack.enter_context(RunLog(out, settings)) if out is not None else None
        done: dict[str, Record] = dict(log.done) if log is not None else {}
        asked = [one for one in questions.questions if one.id not in done]
        if len(asked) < len(questions.questions):
            number = len(questions.questions) - len(asked)
            run.note(
                f"{number:,} of {len(questions.questions):,} questions have been answered before; "
                "the run goes on from there."
            )

        def keep(record: Record) -> None:
            done[record.id] = record
            if log is not None:
                log.write(record)

        rules = ready.method.rules
        run_questions(store, asked, asker.answers, rules, run.progress, keep, linked=linked, k=k)
        if told := ready.calls_note():
            run.note(told)
        if unproven := asker.proofs.count(False):
            run.note(
                f"Not proven within {max_forwards} forwards: the paths of {unproven:,} of "
                f"{len(asker.proofs):,} questions that were answered now."
            )
        for one in map(malformed_record, questions.malformed):
            if one.id not in done:
                keep(one)
        names = [one.id for one in questions.questions]
        names += [malformed_record(one).id for one in questions.malformed]
        records = [done[name] for name in names]
        figures = summarise(records, kg=kg, method=method, form=form)
        if out is not None:
            text, page = write_reports(out, figures, records, settings)
            run.note(f"Reports: {text} and {page}.")
    run.print(lambda: _show(figures), figures)


@dataclass(frozen=True, slots=True)
class _Asker:
    """Asks questions of any graph by one method; ``given``: it answers without topic entities."""

    run: Run
    ready: making.Ready
    linked: bool
    given: bool
    proofs: list[bool] = field(default_factory=list)  # of each exact search: whether it is proven

    def answers(
        self, store: GraphStore, questions: Sequence[Question]
    ) -> Iterator[tuple[int, Answer | KgqaError]]:
        """Yield each question's number with its answer or error, as they come."""
        from kgqa.answers.answer import Answer

        with closing(self.ready.method.answers(store, self._asked(store, questions))) as found:
            for number, answer in found:
                if isinstance(answer, Answer) and answer.search.proven is not None:
                    self.proofs.append(answer.search.proven)
                yield number, answer

    def _asked(
        self, store: GraphStore, questions: Sequence[Question]
    ) -> Iterator[Asking | KgqaError]:
        from kgqa.errors import EntityNotFoundError, KgqaError, LinkingError
        from kgqa.evaluation.metrics_gold import known_topics
        from kgqa.methods.gcr import Asking

        for question in questions:
            began = time.perf_counter()
            topics = []
            try:
                given = [] if self.linked else known_topics(store, question)
                topics = find_topics(self.run, store, question.question, given, told=False)
            except KgqaError as error:
                if not (self.given and isinstance(error, LinkingError | EntityNotFoundError)):
                    yield error
                    continue
            seconds = time.perf_counter() - began
            index = self.ready.index if question.graph is None else None
            choices = tuple(question.choices)
            yield Asking(question.question, tuple(topics), index, seconds, choices)


def _chosen(questions: QuestionFile, split: str) -> QuestionFile:
    """Return the questions of a split; a malformed line has no id, and counts in each."""
    if split == "all":
        return questions
    from kgqa.errors import DataError
    from kgqa.training.data import is_held_out

    held = split == "validation"
    chosen = [one for one in questions.questions if is_held_out(one.id) == held]
    if not chosen:
        raise DataError(f"No question of the file is in the split '{split}'.", "Leave out --split.")
    return type(questions)(chosen, questions.malformed)


def _sha256(file: Path) -> str:
    import hashlib

    from kgqa.errors import DataError

    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"The question file {file} cannot be read: {error.strerror}.") from None


def _compare(run: Run, a: Path, b: Path) -> None:
    from kgqa.evaluation.compare import compare
    from kgqa.evaluation.report_log import read_run, read_settings

    found = compare(read_run(a), read_run(b), read_settings(a), read_settings(b))

    def show() -> None:
        from kgqa.cli.show import say, show_rows
        from kgqa.evaluation.report import comparison_rows

        heads = ["figure", "A", "B", "B - A", "95 % interval", "better", "worse", "p"]
        show_rows("", heads, comparison_rows(found))
        say()
        say(
            f"{found.shared} questions in both runs; {len(found.only_a)} in A alone, "
            f"{len(found.only_b)} in B alone."
        )
        right = found.right
        say(
            f"First answer right: both {right['both']}, A alone {right['only_a']}, "
            f"B alone {right['only_b']}, neither {right['neither']}."
        )
        for name, (first, second) in found.settings.items():
            say(f"{name}: A {first}, B {second}")

    run.print(show, found.to_json())


def _show(figures: dict[str, Any]) -> None:
    from kgqa.cli.show import say, show_rows
    from kgqa.evaluation.report import figure_rows, outcome_rows, part_rows

    say(
        f"{figures['questions']} questions of the form {figures['format']}, "
        f"{figures['answered']} answered; KG {figures['kg']}"
    )
    say()
    show_rows("", ["figure", "%", "95 % interval"], figure_rows(figures))
    heads = ["questions", "Hits@1", "95 % interval", "Hit@K", "F1"]
    for part in ("hop", "type"):
        if figures[f"by_{part}"]:
            say()
            show_rows("", [part, *heads], part_rows(figures[f"by_{part}"]))
    say()
    show_rows("", ["outcome", "questions", "%"], outcome_rows(figures))
    seconds = figures["seconds"]
    if seconds["p50"] is not None:
        say()
        say(f"Half took {seconds['p50']:.2f} s or less, 95 % {seconds['p95']:.2f} s or less.")
