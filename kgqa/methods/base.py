"""The seam of methods: one store and some questions in, numbered answers out, as they come.

A method is any object of :class:`Method`; ``kgqa ask`` and ``kgqa eval`` know no more of one. Which
name means which method, and what it is made with, is said once, in ``kgqa.cli.asking``. Here are
also the parts that several methods share: the paths that there are to choose from, several calls
of a general LLM at once, and the answers that it writes from a method's paths.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import numpy as np

from kgqa.answers.answer import KgLlmUse
from kgqa.answers.general_answer import ask_general, with_reply
from kgqa.errors import EmptyLanguageError, KgqaError
from kgqa.graph.model import keys_array
from kgqa.methods.gcr import answer_questions
from kgqa.paths.ground import ground
from kgqa.paths.sample import Sample, sample_walk
from kgqa.paths.walk import joined_tables, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kgqa.answers.answer import Answer, TopicEntity
    from kgqa.answers.general_answer import Reply
    from kgqa.decoding.engine import Engine
    from kgqa.graph.store import GraphStore
    from kgqa.methods.gcr import Asking, GcrOptions
    from kgqa.models.general import GeneralLLM
    from kgqa.models.kg_llm import KgLLM
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import GroundedPath
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.lexicon import PathLexicon

T = TypeVar("T")
R = TypeVar("R")
Numbered: TypeAlias = Generator[tuple[int, "Answer | KgqaError"], None, None]

NO_KG_LLM = KgLlmUse("none", None, 0, 0, 0)  # of a method that has none
CONCURRENCY = 8  # calls of a general LLM at a time
CAP = 2_000  # paths of a topic entity that are looked at where no model decodes


class Method(Protocol):
    """A way from questions to answers. ``name`` is what users call it."""

    @property
    def name(self) -> str:
        """The method's name, as ``Answer.method`` has it."""

    def rules(self, store: GraphStore) -> WalkRules:
        """Return which walks of ``store`` are paths."""

    def answers(self, store: GraphStore, questions: Iterable[Asking | KgqaError]) -> Numbered:
        """Yield the number of each question once, with its answer or its error, in any order.

        An error among the questions is handed on under its number; one question's failure ends no
        other. Questions are taken from the iterable as there is room for them.
        """


def one_by_one(
    questions: Iterable[Asking | KgqaError], answer: Callable[[Asking], Answer]
) -> Numbered:
    """Yield each question's number with what ``answer`` gives for it, or its error, in order."""
    for number, asking in enumerate(questions):
        if isinstance(asking, KgqaError):
            yield number, asking
            continue
        try:
            yield number, answer(asking)
        except KgqaError as error:
            yield number, error


@dataclass(frozen=True, slots=True)
class Gcr:
    """Graph-constrained reasoning (``kgqa.methods.gcr``) without a general LLM, as a method.

    ``lexicon`` is of the KG-LLM's tokenizer and path format; ``walks`` says which walks of a store
    are paths.
    """

    kg_llm: KgLLM
    lexicon: PathLexicon
    walks: Callable[[GraphStore], WalkRules]
    options: GcrOptions
    engine: Engine

    @property
    def name(self) -> str:
        """The method's name."""
        return "gcr"

    def rules(self, store: GraphStore) -> WalkRules:
        """Return which walks of ``store`` are paths."""
        return self.walks(store)

    def answers(self, store: GraphStore, questions: Iterable[Asking | KgqaError]) -> Numbered:
        """Yield each question's number with its answer or its error, as they come."""
        return answer_questions(
            store,
            self.kg_llm,
            self.lexicon,
            questions,
            self.walks(store),
            self.options,
            engine=self.engine,
        )


@dataclass(frozen=True, slots=True)
class WithGeneralLLM:
    """A method whose paths a general LLM turns into answers, several questions at a time.

    ``method`` finds the paths; what it would answer from them plays no part. A call that fails is
    the error of its question. ``max_tokens``: what an answer may be long, None as the server has
    it.
    """

    method: Method
    general: GeneralLLM
    concurrency: int = CONCURRENCY
    max_tokens: int | None = None

    @property
    def name(self) -> str:
        """The name of the method that finds the paths."""
        return self.method.name

    def rules(self, store: GraphStore) -> WalkRules:
        """Return which walks of ``store`` are paths."""
        return self.method.rules(store)

    def answers(self, store: GraphStore, questions: Iterable[Asking | KgqaError]) -> Numbered:
        """Yield each question's number with its answer or its error, as they come."""
        choices: dict[int, tuple[str, ...]] = {}

        def noted() -> Iterator[Asking | KgqaError]:
            for number, one in enumerate(questions):
                if not isinstance(one, KgqaError) and one.choices:
                    choices[number] = one.choices
                yield one

        def call(item: tuple[int, Answer | KgqaError]) -> Reply | KgqaError:
            number, answer = item
            if isinstance(answer, KgqaError):
                return answer
            return ask_general(self.general, answer, choices.get(number, ()), self.max_tokens)

        with closing(self.method.answers(store, noted())) as found:
            for (number, answer), reply in several_at_once(found, call, self.concurrency):
                if isinstance(reply, KgqaError) or isinstance(answer, KgqaError):
                    yield number, reply if isinstance(reply, KgqaError) else answer
                    continue
                given = choices.get(number, ())
                try:
                    yield number, with_reply(store, answer, self.general, reply, given)
                except KgqaError as error:
                    yield number, error


def several_at_once(
    items: Iterable[T], work: Callable[[T], R], most: int
) -> Iterator[tuple[T, R | KgqaError]]:
    """Yield each item with what ``work`` gives for it, as they come, ``most`` at a time.

    ``work`` runs in threads of its own; a KgqaError that it raises is its item's result, any other
    error ends all. Items are taken from the iterable in the caller's thread, between results, so
    that what makes them goes on while calls wait for a server. A caller that stops early leaves no
    thread that keeps the program from ending.
    """
    done: SimpleQueue[tuple[T, R | KgqaError, BaseException | None]] = SimpleQueue()

    def run(item: T) -> None:
        try:
            done.put((item, work(item), None))
        except KgqaError as error:
            done.put((item, error, None))
        except BaseException as error:  # shown where it can be seen: in the caller's thread
            done.put((item, KgqaError(str(error)), error))

    def taken(
        one: tuple[T, R | KgqaError, BaseException | None],
    ) -> tuple[T, R | KgqaError]:
        if one[2] is not None:
            raise one[2]
        return one[0], one[1]

    waiting = 0
    for item in items:
        Thread(target=run, args=(item,), daemon=True).start()
        waiting += 1
        while waiting:
            try:
                one = done.get(block=waiting >= most)
            except Empty:
                break
            waiting -= 1
            yield taken(one)
    for _ in range(waiting):
        yield taken(done.get())


@dataclass(frozen=True, slots=True)
class Candidates:
    """The paths out of some topic entities, by text: ``groups[i]`` share the text ``texts[i]``.

    Shorter paths stand before longer ones. ``notes`` say where a sample stands for all.
    """

    texts: tuple[str, ...]
    groups: tuple[tuple[GroundedPath, ...], ...]
    notes: tuple[str, ...]

    def ending_in(self, ids: set[str]) -> Candidates:
        """Return those paths that end in one of ``ids``. Raises EmptyLanguageError for none."""
        groups = [tuple(one for one in group if one.tail.id in ids) for group in self.groups]
        kept = [place for place, group in enumerate(groups) if group]
        if not kept:
            raise EmptyLanguageError(
                "No path leads from the topic entities to one of the choices.",
                "Allow longer paths (--hops), or name another entity (--entity).",
            )
        return Candidates(
            tuple(self.texts[place] for place in kept),
            tuple(groups[place] for place in kept),
            self.notes,
        )


def candidate_paths(
    store: GraphStore,
    topics: Sequence[TopicEntity],
    rules: WalkRules,
    form: PathFormat,
    cap: int,
    seed: int = 0,
) -> Candidates:
    """Return every path out of ``topics``, each checked in the store.

    Of a topic entity with more than ``cap`` paths a random sample of so many is taken, by ``seed``,
    and a note says so. Raises EmptyLanguageError where there is no path at all.
    """
    keys = keys_array(list(dict.fromkeys(topic.key for topic in topics)))
    table, over = walk(store, keys, rules, cap)
    tables, notes = [table], []
    if len(over):
        sample = Sample(cap, "random", seed)
        tables.append(sample_walk(store, over, rules, sample))
        many = set(over.tolist())
        notes = [
            f"{topic.name} ({topic.id}) has too many paths; a sample stands for them: {sample}."
            for topic in {one.key: one for one in topics}.values()
            if topic.key in many
        ]
    table = joined_tables(tables)
    by_text: dict[str, list[GroundedPath]] = {}
    for path in ground(store, table.take(np.argsort(table.length, kind="stable")), form):
        if path is not None:
            by_text.setdefault(path.text, []).append(path)
    if not by_text:
        raise EmptyLanguageError(
            f"No path of at most {rules.hops} hops leads out of the topic entities.",
            "Name another entity (--entity), or walk the other way (--direction both).",
        )
    return Candidates(tuple(by_text), tuple(map(tuple, by_text.values())), tuple(notes))
