"""``kgqa ask``: a question to answers with grounded paths."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kgqa.cli import llm
from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run, browser_link, others_of

if TYPE_CHECKING:
    from kgqa.decoding.engine import Engine
    from kgqa.graph.store import GraphStore
    from kgqa.models.general import GeneralLLM
    from kgqa.models.kg_llm import KgLLM
    from kgqa.reasoning.answer import Answer, TopicEntity
    from kgqa.reasoning.gcr import GcrOptions
    from kgqa.trie.index.manifest import IndexKey
    from kgqa.trie.index.reader import TrieIndex


def ask(
    run: Run,
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    entity: Annotated[
        list[str] | None,
        typer.Option(help="A topic entity, by id or name; may be given several times."),
    ] = None,
    hops: Annotated[int | None, typer.Option(help="Hops of a path at most.", min=1)] = None,
    k: Annotated[int, typer.Option(help="Paths to decode.", min=1)] = 10,
    method: Annotated[Literal["gcr"], typer.Option(help="How to reason.")] = "gcr",
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
    walk: llm.WalkFlag = None,
    seed: llm.SeedFlag = None,
    time_limit: llm.TimeLimitFlag = None,
    budget: llm.BudgetFlag = None,
    quantize: llm.QuantizeFlag = None,
) -> None:
    """Answer a question with facts, and show the path of facts behind each answer."""
    from kgqa.cli.show import say, show_answer
    from kgqa.models.profile import engine_for
    from kgqa.reasoning.choices import parse_choices
    from kgqa.reasoning.gcr import GcrOptions

    drawn = search == "sample"
    walk_seed = None if drawn and sample is None else seed  # one seed for all that is drawn
    wanted = llm.Wanted(model, adapter, preset, hops, direction, mediators, sample, walk, walk_seed)
    wanted.check()
    path_seed = seed if drawn else None
    searched = llm.search_of(search, k, groups, diversity_penalty, path_seed, max_forwards)
    weigh = llm.weighing(expand, cut, doubt, most_tails)
    chosen = parse_choices(choices) if choices is not None else []
    general = general_llm(run, general_model)
    with run.open_store() as store:
        began = time.perf_counter()
        topics = find_topics(run, store, question, entity or [])
        link_seconds = time.perf_counter() - began
        kg_llm = wanted.load(run, quantize)
        engine = engine_for(kg_llm, together=1, budget=budget, progress=run.progress)
        options = GcrOptions(
            k=k,
            score_rule=kg_llm.card.score_rule,
            time_limit=time_limit,
            search=searched,
            weigh=weigh,
        )
        asking = (question, topics, chosen, options, engine)
        answer = _answer(run, store, wanted, kg_llm, *asking, general, link_seconds)
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
    from kgqa.errors import LinkingError
    from kgqa.linking.linker import link, topic_entities
    from kgqa.linking.resolve import resolve_entities
    from kgqa.reasoning.answer import TopicEntity

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


def open_fitting_index(run: Run, kg: str, key: IndexKey, wanted: llm.Wanted) -> TrieIndex | None:
    """Return the index that fits, or None after saying why there is none and what makes one."""
    from kgqa.errors import IndexFault, ShardDamagedError
    from kgqa.trie.index.reader import open_index

    try:
        return open_index(run.tries_folder(kg), key)
    except IndexFault as error:
        build = wanted.build_command(run)
        if isinstance(error, ShardDamagedError):
            build += " --rebuild"
        run.note(f"{error.message} Answering on the fly. Build one that fits: {build}")
        return None


def _answer(
    run: Run,
    store: GraphStore,
    wanted: llm.Wanted,
    kg_llm: KgLLM,
    question: str,
    topics: list[TopicEntity],
    choices: list[str],
    options: GcrOptions,
    engine: Engine,
    general: GeneralLLM | None,
    link_seconds: float,
) -> Answer:
    from contextlib import nullcontext

    from kgqa.errors import EmptyLanguageError
    from kgqa.reasoning.gcr import answer_question
    from kgqa.trie.lexicon import PathLexicon

    rules = wanted.rules(store.info, kg_llm.card)
    form = llm.path_format(kg_llm.card)
    key = llm.index_key(store.info, kg_llm.encoder, form, rules, wanted.sampled())
    index = open_fitting_index(run, store.info.name, key, wanted)
    try:
        with index or nullcontext():
            return answer_question(
                store,
                kg_llm,
                PathLexicon(kg_llm.encoder, form),
                question,
                topics,
                rules,
                options,
                index=index,
                general=general,
                link_seconds=link_seconds,
                engine=engine,
                choices=choices,
            )
    except EmptyLanguageError as error:
        names = ", ".join(f"{topic.name} ({topic.id})" for topic in topics)
        raise EmptyLanguageError(f"{error.message} Asked about: {names}.", error.hint) from None


def general_llm(run: Run, model: str | None) -> GeneralLLM | None:
    """Return the general LLM where one was asked for; an exported key alone asks for none."""
    settings = run.settings
    model = model or settings.general_model
    if not model:
        return None
    from kgqa.models.general import GeneralLLM

    return GeneralLLM(model, base_url=settings.openai_base_url, key=settings.openai_api_key)
