"""``kgqa ask``: a question to answers with grounded paths."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from kgqa.cli import asking, asking_dog, llm, making
from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run, browser_link, others_of

if TYPE_CHECKING:
    from kgqa.answers.answer import Answer, TopicEntity
    from kgqa.graph.store import GraphStore
    from kgqa.methods.gcr import Asking


def ask(
    run: Run,
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    entity: Annotated[
        list[str] | None,
        typer.Option(help="A topic entity, by id or name; may be given several times."),
    ] = None,
    hops: Annotated[int | None, typer.Option(help="Hops of a path at most.", min=1)] = None,
    k: Annotated[int, typer.Option(help="Paths to decode.", min=1)] = 10,
    method: asking.MethodFlag = "gcr",
    preset: Annotated[
        str | None, typer.Option(help="Prompt, markers and walk rules by name: default, gcr.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The KG-LLM: a hub name, a folder or a GGUF file.")
    ] = None,
    adapter: Annotated[str | None, typer.Option(help="A LoRA adapter's folder, or 'none'.")] = None,
    general_model: Annotated[
        str | None,
        typer.Option(help="Model of an OpenAI-compatible server that writes the answer."),
    ] = None,
    answer_tokens: asking.AnswerTokensFlag = None,
    cache_calls: asking.CacheCallsFlag = True,
    encoder: asking.EncoderFlag = None,
    reasoner: asking.ReasonerFlag = None,
    paths_each: asking.PathsEachFlag = None,
    beams: asking_dog.BeamsFlag = None,
    steps: asking_dog.StepsFlag = None,
    triplets: asking_dog.TripletsFlag = None,
    visibility: asking_dog.VisibilityFlag = None,
    cap: asking.CapFlag = None,
    search: llm.SearchFlag = "beam",
    groups: llm.GroupsFlag = None,
    diversity_penalty: llm.PenaltyFlag = None,
    max_forwards: llm.MaxForwardsFlag = None,
    choices: Annotated[
        str | None,
        typer.Option(help="Answer with one of these: a,b,c (a comma inside one: \\,)."),
    ] = None,
    expand: llm.ExpandFlag = True,
    cut: llm.CutFlag = None,
    doubt: llm.DoubtFlag = None,
    most_tails: llm.MostTailsFlag = None,
    direction: DirectionFlag = None,
    mediators: MediatorsFlag = None,
    sample: llm.SampleFlag = None,
    walk: asking_dog.WalkFlag = None,
    seed: llm.SeedFlag = None,
    time_limit: llm.TimeLimitFlag = None,
    budget: llm.BudgetFlag = None,
    quantize: llm.QuantizeFlag = None,
) -> None:
    """Answer a question with facts, and show the path of facts behind each answer."""
    from kgqa.answers.choices import parse_choices
    from kgqa.cli.show import say, show_answer
    from kgqa.errors import UsageError
    from kgqa.methods.gcr import Asking

    if method in asking.BASELINES:
        raise UsageError(
            f"The method {method} is a baseline that answers without the graph, to be measured "
            "and not to be relied on.",
            f"Measure it: kgqa eval FORMAT FILE --method {method}.",
        )
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
        encoder=encoder,
        reasoner=reasoner,
        paths_each=paths_each,
        cut=cut,
        dog=asking_dog.DogFlags(beams, steps, graph_walk, visibility, triplets),
        cap=cap,
        answer_tokens=answer_tokens,
        cache_calls=cache_calls,
        together=1 if method == "gcr" else None,
        time_limit=time_limit,
        budget=budget,
        quantize=quantize,
    )
    flags.check(run)
    chosen = tuple(parse_choices(choices)) if choices is not None else ()
    with ExitStack() as stack:
        store = stack.enter_context(run.open_store())
        began = time.perf_counter()
        topics = find_topics(run, store, question, entity or [])
        link_seconds = time.perf_counter() - began
        ready = making.make_ready(run, flags, store, stack)
        asked = Asking(question, tuple(topics), ready.index, link_seconds, chosen)
        answer = _answer(ready, store, asked)
        link = browser_link(run, store, answer.facts())
    for note in answer.notes:
        run.note(note)
    proof = llm.proof(answer.search, len(answer.paths), answer.forwards)

    def show() -> None:
        show_answer(answer, link)
        if proof:
            say(proof, style="dim")

    run.print(show, answer.to_json(link))


def find_topics(
    run: Run, store: GraphStore, question: str, named: list[str], *, told: bool = True
) -> list[TopicEntity]:
    """Return the topic entities: those the user named, else those the linker finds.

    ``told``: whether the user hears of what else a name may mean. Raises LinkingError and
    EntityNotFoundError.
    """
    from kgqa.answers.answer import TopicEntity
    from kgqa.errors import LinkingError
    from kgqa.linking.linker import link, topic_entities
    from kgqa.linking.resolve import resolve_entities

    if not question.strip():
        raise LinkingError("The question is empty.", 'Ask one: kgqa ask "Where was … born?"')
    if named:
        found = resolve_entities(store, named)
        for one in found:
            if told and one.others:
                run.note(
                    f"'{one.name}' means {one.id}, the best connected one; others: "
                    f"{others_of(one.others)}."
                )
        return [TopicEntity(one.key, one.id, one.name, 1.0) for one in found]
    candidates = link(store, question)
    chosen = topic_entities(candidates)
    for topic in chosen:
        others = [
            one
            for one in candidates
            if (one.start, one.end) == (topic.start, topic.end) and one.id != topic.id
        ]
        if told and others:
            run.note(
                f"'{topic.mention}' is taken for {topic.name} ({topic.id}); it may also be: "
                f"{others_of(others)}. Choose with --entity ID."
            )
    return [TopicEntity(one.key, one.id, one.name, round(one.score, 4)) for one in chosen]


def _answer(ready: making.Ready, store: GraphStore, asked: Asking) -> Answer:
    from contextlib import closing

    from kgqa.errors import EmptyLanguageError, KgqaError

    with closing(ready.method.answers(store, [asked])) as found:
        _, answer = next(found)
    if isinstance(answer, EmptyLanguageError):
        names = ", ".join(f"{topic.name} ({topic.id})" for topic in asked.topics)
        raise EmptyLanguageError(f"{answer.message} Asked about: {names}.", answer.hint)
    if isinstance(answer, KgqaError):
        raise answer
    return answer
