"""``kgqa ask``: a question to answers with grounded paths."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from kgqa.cli import llm
from kgqa.cli.common import Run

if TYPE_CHECKING:
    from kgqa.graph.store import GraphStore
    from kgqa.models.general import GeneralLLM
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.walk import WalkRules
    from kgqa.reasoning.answer import Answer, TopicEntity
    from kgqa.trie.index.manifest import IndexKey
    from kgqa.trie.index.reader import TrieIndex

_AMBIGUOUS = 5  # others of a name that are shown


def ask(
    run: Run,
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    entity: Annotated[
        list[str] | None,
        typer.Option(help="A topic entity, by id or name; may be given several times."),
    ] = None,
    hops: Annotated[int | None, typer.Option(help="Hops of a path at most.", min=1)] = None,
    k: Annotated[int, typer.Option(help="Paths to decode.", min=1)] = 10,
    method: Annotated[str, typer.Option(help="How to reason: gcr.")] = "gcr",
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
    search: Annotated[str, typer.Option(help="How to search: beam.")] = "beam",
    direction: Annotated[str | None, typer.Option(help="Walk out, in or both.")] = None,
    mediators: Annotated[str | None, typer.Option(help="collapse or keep.")] = None,
) -> None:
    """Answer a question with facts, and show the path of facts behind each answer."""
    from kgqa.cli.show import show_answer
    from kgqa.errors import UsageError

    if method != "gcr":
        raise UsageError(f"There is no method '{method}'.", "There is: gcr.")
    if search != "beam":
        raise UsageError(f"There is no search '{search}'.", "There is: beam.")
    general = general_llm(run, general_model)
    with run.open_store() as store:
        began = time.perf_counter()
        topics = find_topics(run, store, question, entity or [])
        link_seconds = time.perf_counter() - began
        kg_llm = llm.load(run, model, adapter, preset)
        answer = _answer(
            run,
            store,
            kg_llm,
            question,
            topics,
            llm.walk_rules(
                store.info, kg_llm.card, hops, direction, mediators, card_decides=preset is not None
            ),
            k,
            general,
            link_seconds,
        )
        link = _browser_url(run, store, answer)
    for note in answer.notes:
        run.note(note)
    run.print(lambda: show_answer(answer, link), answer.to_json(link))


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
                shown = ", ".join(f"{other.name} ({other.id})" for other in one.others[:_AMBIGUOUS])
                more = len(one.others) - _AMBIGUOUS
                run.note(
                    f"'{one.name}' means {one.id}, the best connected one; others: {shown}"
                    + (f" and {more} more." if more > 0 else ".")
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
            shown = ", ".join(f"{one.name} ({one.id})" for one in others[:_AMBIGUOUS])
            run.note(
                f"'{topic.mention}' is taken for {topic.name} ({topic.id}); it may also be: "
                f"{shown}. Choose with --entity ID."
            )
    return [TopicEntity(one.key, one.id, one.name, round(one.score, 4)) for one in chosen]


def open_fitting_index(run: Run, kg: str, key: IndexKey) -> TrieIndex | None:
    """Return the index that fits, or None after saying why there is none and what makes one."""
    from kgqa.errors import IndexFault
    from kgqa.trie.index.reader import open_index

    try:
        return open_index(run.tries_folder(kg), key)
    except IndexFault as error:
        run.note(f"{error.message} Answering on the fly. {error.hint}")
        return None


def _answer(
    run: Run,
    store: GraphStore,
    kg_llm: KgLLM,
    question: str,
    topics: list[TopicEntity],
    rules: WalkRules,
    k: int,
    general: GeneralLLM | None,
    link_seconds: float,
) -> Answer:
    from contextlib import nullcontext

    from kgqa.reasoning.gcr import GcrOptions, answer_question
    from kgqa.trie.lexicon import PathLexicon

    form = llm.path_format(kg_llm.card)
    lexicon = PathLexicon(kg_llm.encoder, form)
    key = llm.index_key(store.info, kg_llm.encoder, form, rules)
    with open_fitting_index(run, store.info.name, key) or nullcontext() as index:
        return answer_question(
            store,
            kg_llm,
            lexicon,
            question,
            topics,
            rules,
            GcrOptions(k=k),
            index=index,
            general=general,
            link_seconds=link_seconds,
        )


def general_llm(run: Run, model: str | None) -> GeneralLLM | None:
    """Return the general LLM where one was asked for; an exported key alone asks for none."""
    settings = run.settings
    model = model or settings.general_model
    if not model:
        return None
    from kgqa.models.general import GeneralLLM

    return GeneralLLM(model, base_url=settings.openai_base_url, key=settings.openai_api_key)


def _browser_url(run: Run, store: GraphStore, answer: Answer) -> str | None:
    if store.url.startswith("sqlite"):
        return None
    from kgqa.graph.browser import browser_url

    facts = [(fact.head, fact.predicate, fact.tail) for fact in answer.facts()]
    return browser_url(store, facts, run.settings.neo4j_browser)
