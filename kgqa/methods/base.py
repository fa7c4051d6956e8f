"""The interface of methods: linked questions in, numbered answers out, as they complete.

A method derives from :class:`Method` and overrides :meth:`Method.answer`, which returns what it
found out about one question; the base makes the :class:`kgqa.answers.answer.Answer` of it, and lets
a general LLM write the answers if one is named.
"""

from __future__ import annotations

from abc import ABC
from contextlib import closing
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from kgqa.answers.answer import Answer, Findings
from kgqa.answers.general import ask_general, with_reply
from kgqa.deadline import deadline
from kgqa.errors import KgqaError
from kgqa.methods.connections import connection_findings
from kgqa.methods.options import MethodOptions, WalkOptions
from kgqa.methods.what_is import described, kind_findings
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.understanding.asked import asks_whether

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    from kgqa.answers.answer import TopicEntity
    from kgqa.answers.general import Reply
    from kgqa.graph.model import KGInfo
    from kgqa.graph.store import GraphStore
    from kgqa.methods.resources import Resources
    from kgqa.models.adapter import AdapterCard
    from kgqa.models.general import GeneralLLM

MOST_ANSWERS = 500  # with a path each, or of too many rows to give them all
T = TypeVar("T")
R = TypeVar("R")
OptionsT = TypeVar("OptionsT", bound=MethodOptions)
Found: TypeAlias = "Generator[tuple[int, Findings | KgqaError], None, None]"
Watch: TypeAlias = "Callable[[str, Mapping[str, Any]], None]"
Numbered: TypeAlias = "Generator[tuple[int, Answer | KgqaError], None, None]"


@dataclass(frozen=True, slots=True)
class LinkedQuestion:
    """A question with its topic entities, and the seconds that linking took.

    ``choices``: the permitted answers of multiple choice, by id or name. ``watch`` is called with
    the name of each stage that the question reaches, and what is known then. ``unlinked``: why
    no topic entity was found, for a method that needs none. ``stop`` raises KgqaError when the
    caller has gone away (:mod:`kgqa.deadline`). ``among``: the ids of an earlier answer to which
    this question refers; empty for any entity.
    """

    question: str
    topics: tuple[TopicEntity, ...] = ()
    link_seconds: float = 0.0
    choices: tuple[str, ...] = ()
    watch: Watch | None = None
    unlinked: KgqaError | None = None
    stop: Callable[[], None] | None = None
    among: frozenset[str] = frozenset()

    def tell(self, stage: str, **known: Any) -> None:
        """Report a stage of the question, with what is known so far, to its watcher."""
        if self.watch is not None:
            self.watch(stage, known)

    @property
    def is_yes_no(self) -> bool:
        """Whether it is a yes-or-no question about its two topic entities."""
        return len(self.topics) == 2 and not self.choices and asks_whether(self.question)


class Method(ABC, Generic[OptionsT]):
    """A way to answer questions, found by its name in ``kgqa.registry.METHODS``.

    How another package adds one: docs/extending.md. ``general``: whether a general LLM that is
    named writes the answers; an ensemble's members leave that to it.
    """

    name: str
    Options: ClassVar[type[MethodOptions]] = MethodOptions

    def __init__(self, options: OptionsT, resources: Resources, *, general: bool = True) -> None:
        from kgqa.models.adapter import AdapterCard, preset

        self.options = options
        self.resources = resources
        self.card = preset(options.preset) if options.preset else AdapterCard()
        self.general: GeneralLLM | None = None
        if general:
            self.general = resources.general_llm(
                options.general_model, cache_calls=options.cache_calls
            )

    @property
    def form(self) -> PathFormat:
        """The format of paths as text."""
        return path_format(self.card)

    def walks(self, store: GraphStore) -> WalkRules:
        """Return the walk rules for ``store``, from the options and the model's card."""
        preset = self.options.preset is not None
        return walk_rules(store.info, self.card, self.options, card_decides=preset)

    def rules(self, store: GraphStore) -> WalkRules:
        """Return the walk rules of the method's paths in ``store``."""
        return self.walks(store)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that a run's log records; None for one that the method does not have."""
        options, store = self.options, self.resources.store
        rules = None if store is None else self.walks(store)
        return {
            "method": self.name,
            "preset": options.preset,
            "k": options.k,
            "hops": rules.hops if rules else options.hops or self.card.hops,
            "direction": rules.direction if rules else options.direction,
            "mediators": options.mediators or self.card.mediators,
            "general_model": self.general.model if self.general else None,
            "answer_tokens": options.answer_tokens if self.general else None,
            **self.own_settings(),
        }

    def own_settings(self) -> dict[str, Any]:
        """Return the part of :attr:`settings` that is special to this method."""
        return {}

    def answer(self, store: GraphStore, question: LinkedQuestion) -> Findings:
        """Answer one question and return its findings. Raises KgqaError if it fails."""
        raise NotImplementedError(f"{type(self).__name__} overrides neither answer nor findings.")

    def findings(self, store: GraphStore, questions: Iterable[LinkedQuestion | KgqaError]) -> Found:
        """Yield each question's number with its findings or its error.

        A method that batches questions overrides this; they may be yielded in any order.
        """
        for number, question in enumerate(questions):
            if isinstance(question, KgqaError):
                yield number, question
                continue
            found: Findings | KgqaError
            try:
                with deadline(question.stop):
                    found = self.answer(store, question)
            except KgqaError as error:
                found = error
            yield number, found

    def answers(
        self, store: GraphStore, questions: Iterable[LinkedQuestion | KgqaError]
    ) -> Numbered:
        """Yield each question's number once, with its answer or its error, in any order.

        One question's failure does not end another. Questions are read only as fast as they are
        processed.
        """
        asked: dict[int, LinkedQuestion] = {}

        def noted() -> Iterator[LinkedQuestion | KgqaError]:
            """Yield the questions, errors included.

            Questions are remembered by number; that their search begins is reported.
            """
            for number, one in enumerate(questions):
                if not isinstance(one, KgqaError):
                    asked[number] = one
                    one.tell("searching", method=self.name)
                yield one

        def built() -> Iterator[tuple[int, Answer | KgqaError]]:
            """Yield each question's number with its answer, or its error.

            The answer is made of the findings and described.
            """
            for number, one in found:
                if (this := asked.get(number)) is not None and not this.choices:
                    args = (store, this.question, this.topics, self.form)
                    one = (
                        kind_findings(*args, whether=this.is_yes_no)
                        or connection_findings(*args)
                        or one
                    )
                if not isinstance(one, KgqaError):
                    this = asked[number]
                    one = Answer.of(this.question, self.name, this.topics, one, this.link_seconds)
                    one = described(store, one)
                    if this.watch is not None:
                        shown = [path.to_dict() for path in one.paths]
                        this.tell("paths", method=self.name, paths=shown)
                yield number, one

        with closing(self.findings(store, noted())) as found:
            if self.general is None:
                yield from built()
            else:
                yield from self._written(store, self.general, built(), asked)

    def _written(
        self,
        store: GraphStore,
        general: GeneralLLM,
        answers: Iterator[tuple[int, Answer | KgqaError]],
        asked: Mapping[int, LinkedQuestion],
    ) -> Iterator[tuple[int, Answer | KgqaError]]:
        """Yield ``answers`` with the general LLM's choice in place of their own; calls the LLM.

        Rows of a plan and errors stay as they are.
        """

        def call(item: tuple[int, Answer | KgqaError]) -> Reply | None:
            """Ask the general LLM about one answer; None, without a call, for rows of a plan."""
            number, answer = item
            if isinstance(answer, KgqaError):
                raise answer
            if answer.result is not None:
                return None
            with deadline(asked[number].stop):
                return ask_general(
                    general,
                    answer,
                    asked[number].choices,
                    self.options.answer_tokens,
                    masked=self.options.general_masked or self.resources.settings.general_masked,
                )

        for (number, answer), reply in map_concurrently(answers, call, self.options.concurrency):
            if isinstance(reply, KgqaError) or isinstance(answer, KgqaError):
                yield number, reply if isinstance(reply, KgqaError) else answer
                continue
            if reply is None:
                yield number, answer
                continue
            try:
                yield number, with_reply(store, answer, general, reply, asked[number].choices)
            except KgqaError as error:
                yield number, error


def path_format(card: AdapterCard) -> PathFormat:
    """Return the path format that a model was trained to write."""
    return PathFormat(start=card.start, end=card.end)


def walk_rules(
    info: KGInfo,
    card: AdapterCard,
    options: WalkOptions | None = None,
    *,
    card_decides: bool = False,
) -> WalkRules:
    """Return the walk rules: from the options, the KG's direction and the card's rules.

    Only the card of a preset that the user selected (``card_decides``) overrides the KG's
    direction.
    """
    given = options or WalkOptions()
    return WalkRules(
        hops=card.hops if given.hops is None else given.hops,
        direction=given.direction or (card.direction if card_decides else info.direction),
        mediators=given.mediators or card.mediators,
    )


def map_concurrently(
    items: Iterable[T], work: Callable[[T], R], most: int
) -> Iterator[tuple[T, R | KgqaError]]:
    """Yield each item with the result of ``work``, as they complete, up to ``most`` at a time.

    ``work`` runs in daemon threads; a KgqaError that it raises is its item's result, any other
    error ends all. Items are taken from the iterable in the caller's thread, between results, so
    that the iterable is computed while calls wait for a server.
    """
    done: SimpleQueue[tuple[T, R | KgqaError, BaseException | None]] = SimpleQueue()

    def run(item: T) -> None:
        """Call ``work`` on an item and queue the result or the error."""
        try:
            done.put((item, work(item), None))
        except KgqaError as error:
            done.put((item, error, None))
        except BaseException as error:  # shown where it can be seen: in the caller's thread
            done.put((item, KgqaError(str(error)), error))

    def next_result(*, block: bool) -> tuple[T, R | KgqaError]:
        """Return the next item with its result; raise an error other than KgqaError."""
        item, result, error = done.get(block=block)
        if error is not None:
            raise error
        return item, result

    waiting = 0
    for item in items:
        Thread(target=run, args=(item,), daemon=True).start()
        waiting += 1
        while waiting:
            try:
                one = next_result(block=waiting >= most)
            except Empty:
                break
            waiting -= 1
            yield one
    for _ in range(waiting):
        yield next_result(block=True)
