"""``kgqa eval``: answer a file of questions and measure it, or compare two such runs."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kgqa.cli import asking, asking_dog, llm, making
from kgqa.cli.ask import find_topics
from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.answers.answer import Answer, TopicEntity
    from kgqa.errors import KgqaError
    from kgqa.evaluation import Evaluation
    from kgqa.graph.store import GraphStore
    from kgqa.methods.gcr import Asking
    from kgqa.questions import Question


def evaluate(
    run: Run,
    form: Annotated[str | None, typer.Argument(metavar="FORMAT", help="The file's form.")] = None,
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
    from kgqa.evaluation import evaluate as evaluate_questions
    from kgqa.questions import read_questions
    from kgqa.questions.splits import split_of

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
    questions = split_of(read_questions(file, form, limit), split)
    with ExitStack() as stack:
        own = all(one.graph is not None for one in questions.questions)
        if own and sample is not None:
            raise UsageError(
                "--sample names an index of a KG, and each question of this file has a graph of "
                "its own.",
                "Leave --sample out.",
            )
        store = None if own else stack.enter_context(run.open_store())
        ready = making.make_ready(run, flags, store, stack)
        baseline = method in asking.BASELINES
        found = evaluate_questions(
            store,
            questions,
            lambda graph, some: _answers(run, ready, graph, some, linked, baseline),
            ready.method.rules,
            ready.settings,
            out=out,
            linked=linked,
            k=k,
            progress=run.progress,
        )
        if cached := ready.calls_note():
            run.note(cached)
        if found.reports:
            run.note(f"Reports: {found.reports[0]} and {found.reports[1]}.")
    run.print(lambda: _show(found), found.figures)


def _answers(
    run: Run,
    ready: making.Ready,
    store: GraphStore,
    questions: Sequence[Question],
    linked: bool,
    baseline: bool,
) -> Iterator[tuple[int, Answer | KgqaError]]:
    from kgqa.errors import EntityNotFoundError, KgqaError, LinkingError
    from kgqa.methods.gcr import Asking
    from kgqa.questions.meanings import known_topics

    def asked() -> Iterator[Asking | KgqaError]:
        for one in questions:
            began = time.perf_counter()
            topics: Sequence[TopicEntity] = ()
            try:
                named = [] if linked else known_topics(store, one)
                topics = find_topics(run, store, one.question, named, told=False)
            except KgqaError as error:
                if not (baseline and isinstance(error, LinkingError | EntityNotFoundError)):
                    yield error
                    continue
            seconds = time.perf_counter() - began
            index = ready.index if one.graph is None else None
            yield Asking(one.question, tuple(topics), index, seconds, tuple(one.choices))

    with closing(ready.method.answers(store, asked())) as found:
        yield from found


def _compare(run: Run, a: Path, b: Path) -> None:
    from kgqa.evaluation import compare_runs

    found = compare_runs(a, b)

    def show() -> None:
        from kgqa.cli.show import say, show_rows

        table = found.table()
        show_rows("", table.heads, table.rows)
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


def _show(found: Evaluation) -> None:
    from kgqa.cli.show import say, show_rows

    figures = found.figures
    say(
        f"{figures['questions']} questions of the form {figures['format']}, "
        f"{figures['answered']} answered; KG {figures['kg']}"
    )
    for table in found.tables():
        say()
        show_rows("", table.heads, table.rows)
    if times := found.times():
        say()
        say(times)
