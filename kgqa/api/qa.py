"""A session: a KG and a method whose models stay loaded for many questions."""

from __future__ import annotations

import time
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from kgqa.closing import Closing
from kgqa.deadline import deadline
from kgqa.display import NOT_HERE, said_entity, said_name
from kgqa.errors import (
    HALF_A_PAIR,
    EmptyLanguageError,
    EntityNotFoundError,
    KgqaError,
    LinkingError,
    UsageError,
)
from kgqa.graph.store import GraphStore, LiveStore, is_live, schema_version
from kgqa.registry import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from kgqa.answers.answer import Answer, TopicEntity
    from kgqa.api.home import Home
    from kgqa.linking.followup import StandaloneQuestion, Turn
    from kgqa.linking.resolve import Resolution
    from kgqa.methods.base import LinkedQuestion, Method, Watch
    from kgqa.methods.options import MethodOptions
    from kgqa.queries.result import QueryResult
    from kgqa.questions import Question
    from kgqa.trie.index.manifest import IndexKey
    from kgqa.trie.index.reader import TrieIndex

_INTERPRETED = "Interpreted "  # how the note begins that another entity has the same name
_MOST_TOPICS = 1_000  # that one question may start at
_STATES = 5  # times a question is asked while its database changes; failed, four times as often
_LONGEST_FOLLOW_UP = 400  # characters; more has a topic of its own
_ABOUT_AS_SURE = 0.2  # a later reading has to be surer by more
_OTHERS = 5  # entities of a shared name that are listed


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its topic entities and choices, each given by id or name.

    ``reading``: which of the readings that its answer offers is meant, from 1; None leaves it open.
    ``after``: the turns before it, the latest last, for what it leaves out. ``stop`` is called now
    and then, in the thread that answers, and raises KgqaError when nobody waits any more.
    ``watch`` is called in the thread that answers, with a stage and what is known then: ``linked``
    (``topic_entities``, ``notes``), ``searching`` (``method``), ``paths`` (``method``, ``paths``;
    of each method that takes part).
    """

    question: str
    entities: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    watch: Watch | None = None
    after: tuple[Turn, ...] = ()
    stop: Callable[[], None] | None = None
    reading: int | None = None


class QA(Closing):
    """A session: a KG and a method with its loaded models, for many questions.

    ``options`` has the method's options with their defaults. Models are loaded with the first
    question and stay loaded. Close the session with :meth:`close`, or use ``with``. It must not be
    used by several threads at once. Raises UsageError for unsuitable options.
    """

    def __init__(
        self, home: Home, store: GraphStore | None, method: str, options: dict[str, Any]
    ) -> None:
        self.name = method
        self.options: MethodOptions = METHODS.options(method, options)
        self.options.check(home.settings)
        self._home = home
        self.store = store
        self._version = schema_version(store) if store is not None else ""
        self._resources: Any = None
        from kgqa.methods.resources import Models

        self._models = home.models or Models()
        self._previous: Any = None
        self.hold: Callable[[QueryResult], object] = lambda _: None  # registers a result in the KG

    def on(self, store: GraphStore) -> QA:
        """Return a session with the same options for the KG in ``store``."""
        session = copy(self)
        session.store = store
        session._version = schema_version(store)
        session._resources = None
        session.__dict__.pop("method", None)  # it has the index of the KG that it was made for
        return session

    @cached_property
    def method(self) -> Method[Any]:
        """The method with its models, which are loaded on first use."""
        from kgqa.methods.resources import Resources

        self._resources = Resources(
            self._home.settings,
            store=self.store,
            progress=self._home.progress,
            open_index=self._open_trie_index if self.store is not None else None,
            models=self._models,
            build_command=self._home.build_command,
        )
        method: Method[Any] = METHODS.entry(self.name).load()(self.options, self._resources)
        self._previous = None
        return method

    def load(self) -> None:
        """Load now every model that a question may need, instead of at first use."""
        _ = getattr(self.method, "members", None)  # an ensemble's are made when they are asked

    def ask(
        self,
        question: str,
        *,
        entities: Sequence[str] = (),
        choices: Sequence[str] = (),
        after: Answer | Sequence[Answer] = (),
        reading: int | None = None,
    ) -> Answer:
        """Answer one question; see :meth:`kgqa.KG.ask`."""
        turns = turns_of(after)
        asked = Asked(question, tuple(entities), tuple(choices), after=turns, reading=reading)
        ((_, answer),) = self._answers(self._refreshed_store(), [asked])
        if isinstance(answer, KgqaError):
            raise answer
        return answer

    def batch(
        self,
        questions: Iterable[str | Question],
        *,
        errors: Literal["return", "raise"] = "return",
    ) -> Iterator[Answer]:
        """Yield the answer to each question, in their order; they may share forward passes.

        A :class:`kgqa.Question` may have its own topic entities and choices. A question that fails
        yields an :class:`kgqa.Answer` without answers, whose ``error`` says why, and the rest are
        answered; with ``errors="raise"`` its error is raised.
        """
        texts: list[str] = []

        def asked() -> Iterator[Asked]:
            """Yield the questions, remembering their texts."""
            for given in questions:
                question = (
                    Asked(given)
                    if isinstance(given, str)
                    else Asked(given.question, tuple(given.topic_entities), tuple(given.choices))
                )
                texts.append(question.question)
                yield question

        waiting: dict[int, Answer | KgqaError] = {}
        turn = 0
        with closing(self.as_completed(asked())) as completed:
            for number, result in completed:
                waiting[number] = result
                while turn in waiting:
                    answer = waiting.pop(turn)
                    if isinstance(answer, KgqaError):
                        if errors == "raise":
                            raise answer
                        answer = self._failed(texts[turn], answer)
                    yield answer
                    turn += 1

    def _failed(self, question: str, error: KgqaError) -> Answer:
        """Return an answer that only has the error of its question."""
        from kgqa.answers.answer import Answer

        return Answer(question=question, method=self.name, topic_entities=(), error=error)

    def as_completed(
        self, questions: Iterable[Asked]
    ) -> Generator[tuple[int, Answer | KgqaError], None, None]:
        """Yield each question's number with its answer or its error, as soon as it is available.

        Questions are taken from the iterable only when they can be processed, so it may wait for
        further questions while others are answered.
        """
        return self._answers(self._refreshed_store(), questions)

    def answers(
        self, store: GraphStore, questions: Sequence[Question], *, linked: bool = False
    ) -> Iterator[tuple[int, Answer | KgqaError]]:
        """Yield each question's number with its answer or its error, as soon as it is available.

        ``store`` is the KG, or a question's own graph. ``linked``: find topic entities even for
        questions that have them. A method that needs no topic entities is asked without them.
        """
        from kgqa.questions.meanings import known_topics

        def linked_questions() -> Iterator[LinkedQuestion | KgqaError]:
            """Yield the questions with their topic entities, or the error of linking."""
            for question in questions:
                try:
                    given = () if linked else tuple(known_topics(store, question))
                    asked = Asked(question.question, given, tuple(question.choices))
                    yield self._link_question(store, asked, [])
                except KgqaError as error:
                    yield self._without_topics(question, error)

        with closing(self.method.answers(store, linked_questions())) as results:
            yield from results

    def calls(self) -> tuple[int, int]:
        """Return how many calls of the general LLM were made, and how many the cache answered.

        Both are 0 without a general LLM.
        """
        general = self.method.general
        used = general.usage if general is not None else None
        return (used.calls, used.cached) if used else (0, 0)

    @property
    def kg_llms(self) -> frozenset[tuple[object, ...]]:
        """The identities of the KG-LLMs that this session has loaded."""
        return frozenset() if self._resources is None else self._resources.kg_llms

    def close(self) -> None:
        """Release the models, the index, and the connection to a general LLM."""
        if self._resources is not None:
            self._resources.close()
            self._resources = None
            self.__dict__.pop("method", None)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.options.given().items())
        return f"<QA {self.name}{f' ({given})' if given else ''}>"

    def _refreshed_store(self) -> GraphStore:
        """Return the store at its present version; models are rebound if the schema changed."""
        if self.store is None:
            raise ValueError("this session is for questions that bring a graph of their own")
        self.store.refresh()
        if schema_version(self.store) != self._version:  # so has what was made for the one before
            self._previous = self.__dict__.get("method")  # its models are wanted again
            self.close()
            self._version = schema_version(self.store)
        return self.store

    def _answers(
        self, store: GraphStore, questions: Iterable[Asked]
    ) -> Generator[tuple[int, Answer | KgqaError], None, None]:
        """Yield the number and answer of each question, or its error; register plans' results."""
        given = (
            self._live_answers(questions)
            if is_live(store)
            else self._state_answers(store, questions)
        )
        with closing(given) as answers:
            for number, answer in answers:
                if not isinstance(answer, KgqaError) and answer.result is not None:
                    self.hold(answer.result)
                yield number, answer

    def _live_answers(
        self, questions: Iterable[Asked]
    ) -> Generator[tuple[int, Answer | KgqaError], None, None]:
        """Yield answers, each computed from one state of a database that others change.

        A question is asked again, a few times, if the database changed meanwhile.
        """
        for number, asked in enumerate(questions):
            for tried in range(1, 4 * _STATES + 1):
                store = self._refreshed_store()
                try:
                    ((_, answer),) = self._state_answers(store, [asked])
                except KgqaError as error:
                    answer = error
                assert isinstance(store, LiveStore)
                moved, remarks = store.has_moved(), store.remarks()
                if not moved or (tried >= _STATES and not isinstance(answer, KgqaError)):
                    break
            if moved:
                remarks.append("The database changed while this was answered, again and again.")
            if remarks and not isinstance(answer, KgqaError):
                answer = replace(answer, notes=(*answer.notes, *remarks))
            yield number, answer

    def _state_answers(
        self, store: GraphStore, questions: Iterable[Asked]
    ) -> Generator[tuple[int, Answer | KgqaError], None, None]:
        """Yield answers computed from one state of the store.

        1. Each question becomes one or several readings, whose topic entities are linked.
        2. The method answers the linked readings, perhaps together.
        3. When all readings of a question are answered, the most confident answer is yielded.
        """
        open_: dict[int, _OpenReading] = {}  # by the number of the reading

        def linked_questions() -> Iterator[LinkedQuestion | KgqaError]:
            """Yield the linked readings of the questions, or errors of linking."""
            at = 0
            for number, asked in enumerate(questions):
                meant = self._readings_of(store, asked)
                answers: list[Answer | KgqaError | None] = [None] * len(meant)
                for place, reading in enumerate(meant):
                    this = open_[at] = _OpenReading(number, place, reading, answers, asked.reading)
                    at += 1
                    said = reading.entities or asked.entities
                    one_asked = replace(asked, question=reading.question, entities=said)
                    try:
                        with deadline(asked.stop):
                            linked = self._link_question(store, one_asked, this.notes)
                        linked = replace(linked, among=reading.among)
                    except KgqaError as error:
                        yield error
                        continue
                    this.topics = linked.topics
                    this.read = linked.question
                    this.choices = linked.choices
                    yield linked

        linked = linked_questions()
        first = next(linked, None)
        if first is None:
            return
        if isinstance(first, KgqaError) and not _more(questions) and len(open_[0].answers) == 1:
            yield 0, first  # before a model is loaded in vain
            return

        def every() -> Iterator[LinkedQuestion | KgqaError]:
            """Yield the first linked reading, which was consumed, and the rest."""
            assert first is not None
            yield first
            yield from linked

        from kgqa.answers.unused import as_whether, with_unused
        from kgqa.understanding.question import understood

        with closing(self.method.answers(store, every())) as results:
            for at, answer in results:
                this = open_.pop(at)
                if isinstance(answer, EmptyLanguageError):
                    names = _list_others(this.topics)
                    answer = EmptyLanguageError(
                        f"{answer.message} Asked about: {names}.", answer.hint
                    )
                elif not isinstance(answer, KgqaError):
                    read = understood(this.read)
                    answer = with_unused(_restricted(answer, this.reading), read)
                    answer = answer if this.choices else as_whether(answer)
                    answer = replace(
                        answer,
                        notes=(*_still_true(this.notes, answer), *answer.notes),
                        question=this.reading.question,
                        understood=read,
                    )
                this.answers[this.place] = answer
                done = [result for result in this.answers if result is not None]
                if len(done) == len(this.answers):
                    yield this.number, _as_chosen_reading(store, _most_confident(done), this.chosen)

    def _readings_of(self, store: GraphStore, asked: Asked) -> list[StandaloneQuestion]:
        """Return the readings of a follow-up after earlier turns; else the question itself.

        A question with given entities, without earlier turns, or too long is not a follow-up.
        """
        from kgqa.linking.followup import StandaloneQuestion, readings

        if asked.entities or not asked.after or len(asked.question) > _LONGEST_FOLLOW_UP:
            return [StandaloneQuestion(asked.question)]
        return readings(store, asked.question, asked.after)

    def _link_question(self, store: GraphStore, asked: Asked, notes: list[str]) -> LinkedQuestion:
        """Normalise a question's wording, and find its topic entities and choices.

        ``notes`` gets notes for the answer. Raises UsageError, LinkingError, EntityNotFoundError.
        """
        from kgqa.graph.names import is_storable
        from kgqa.linking.linker import check_question, question_words
        from kgqa.linking.wording import worded
        from kgqa.methods.base import LinkedQuestion
        from kgqa.understanding.clock import written_out

        began = time.perf_counter()
        if not is_storable(asked.question):  # which no tokenizer takes
            raise UsageError(*HALF_A_PAIR)
        (check_question if asked.entities else question_words)(asked.question)  # for any method
        self._check_language(store, asked.question)
        asked = replace(asked, question=worded(store, asked.question).text)
        unlinked: KgqaError | None = None
        topics: list[TopicEntity] = []
        if asked.entities or self.options.needs_topics or not self.options.asks_whole:
            try:
                topics = topic_entities(store, asked.question, asked.entities, notes)
            except LinkingError as error:
                if not self.options.asks_whole or not any(map(str.isalnum, asked.question)):
                    raise
                unlinked = error
        seconds = time.perf_counter() - began
        mentions = [topic.mention or topic.name for topic in topics]
        question, said = written_out(
            asked.question, mentions, self.options.today, self.options.zone
        )
        notes += said
        linked = LinkedQuestion(
            question,
            tuple(topics),
            seconds,
            asked.choices,
            asked.watch,
            unlinked,
            asked.stop,
        )
        linked.tell(
            "linked", topic_entities=[topic.to_dict() for topic in topics], notes=list(notes)
        )
        return linked

    def _check_language(self, store: GraphStore, question: str) -> None:
        """Raise LinkingError for a question in a language that the models cannot read.

        Not if an encoder or a model was chosen, or the KG has such words.
        """
        from kgqa.linking.language import foreign_language, speaks

        if any(getattr(self.options, name, None) for name in ("encoder", "model")):
            return  # which may know more languages
        language = foreign_language(question)
        if language is not None and not speaks(store, question, language):
            raise LinkingError(
                f"The question is in {language}; the models here learnt English.",
                "Ask in English, or name a multilingual `encoder` with a ranker fitted to it, or a "
                "multilingual `model`.",
            )

    def _without_topics(self, question: Question, error: KgqaError) -> LinkedQuestion | KgqaError:
        """Return the question without topics if the method needs none, else the error."""
        from kgqa.methods.base import LinkedQuestion

        if not self.options.needs_topics and isinstance(error, LinkingError | EntityNotFoundError):
            return LinkedQuestion(question.question, (), 0.0, tuple(question.choices))
        return error

    def _open_trie_index(self, key: IndexKey) -> TrieIndex:
        """Open the trie index with a key."""
        from kgqa.trie.index.reader import open_index

        return open_index(self._home.tries(key.kg), key)


@dataclass(slots=True)
class _OpenReading:
    """A reading of a question in progress; ``answers``: those of all its readings."""

    number: int
    place: int
    reading: StandaloneQuestion
    answers: list[Answer | KgqaError | None]
    chosen: int | None = None  # of the readings as plans that the answer offers
    notes: list[str] = field(default_factory=list)
    topics: tuple[TopicEntity, ...] = ()
    read: str = ""  # the question in the wording that is read
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.reading.said:
            self.notes.append(self.reading.said)


def turns_of(after: Answer | Sequence[Answer]) -> tuple[Turn, ...]:
    """Return the earlier turns to which a follow-up may refer.

    Raises UsageError for anything but answers.
    """
    from kgqa.answers.answer import Answer
    from kgqa.linking.followup import Turn

    earlier = after if isinstance(after, list | tuple) else (after,)
    if not all(isinstance(turn, Answer) for turn in earlier):
        raise UsageError(
            "`after` holds something other than an answer.", "Give what `ask` returned before."
        )
    return tuple(
        Turn(
            turn.question,
            tuple(topic.id for topic in turn.topic_entities),
            tuple(answer.id for answer in turn.answers if answer.id is not None) or _counted(turn),
        )
        for turn in earlier
    )


def _counted(answer: Answer) -> tuple[str, ...]:
    """Return the ids of the entities that a numeric answer counts; () if they are too many."""
    result = answer.result
    ids = result.counted_ids(_MOST_TOPICS + 1) if result and result.value is not None else []
    return tuple(filter(None, ids)) if len(ids) <= _MOST_TOPICS else ()


def _most_confident(answers: Sequence[Answer | KgqaError]) -> Answer | KgqaError:
    """Return the first answer whose confidence is near the highest; readings are in order.

    An error if none of the readings is answered.
    """

    def sure(result: Answer | KgqaError) -> float:
        """Return the confidence of an answer, -1 for an error or no answer."""
        answered = not isinstance(result, KgqaError) and (
            result.answers or result.result is not None  # nothing is like it: an answer, too
        )
        return (result.confidence or 0.0) if answered else -1.0  # type: ignore[union-attr]

    surest = max(map(sure, answers))
    return next(answer for answer in answers if sure(answer) >= surest - _ABOUT_AS_SURE)


def _as_chosen_reading(
    store: GraphStore, answer: Answer | KgqaError, number: int | None
) -> Answer | KgqaError:
    """Return an answer in the reading that the user chose, from 1; unchanged if it is None.

    Its plan is run; an error of that is returned.
    """
    from kgqa.methods.query import as_read
    from kgqa.queries.run import rows_of

    if number is None or isinstance(answer, KgqaError):
        return answer
    try:
        return as_read(answer, number, lambda plan: rows_of(plan, cast("Any", store)))
    except KgqaError as error:
        return error


def _still_true(notes: list[str], answer: Answer) -> list[str]:
    """Return the notes of linking that hold for an answer: a plan may be about all of a name."""
    plan = answer.plan
    if plan is None or all(one.operator != "in" for one in plan.where):
        return notes
    return [note for note in notes if not note.startswith(_INTERPRETED)]


def _restricted(answer: Answer, reading: StandaloneQuestion) -> Answer:
    """Return an answer with only the entities that its reading allows.

    Only paths to the remaining answers are kept; without any the answer has no confidence.
    """
    among = reading.among if answer.result is None else ()  # a plan is of no others
    if not (among or reading.apart):
        return answer
    every = [
        ranked_answer
        for ranked_answer in (*answer.answers, *(answer.others if among else ()))
        if ranked_answer.id not in reading.apart and (not among or ranked_answer.id in among)
    ]
    kept = {ranked_answer.id for ranked_answer in every}
    return replace(
        answer,
        answers=tuple(every),
        others=tuple(
            ranked_answer for ranked_answer in answer.others if ranked_answer.id not in kept
        ),
        paths=tuple(
            path
            for path in answer.paths
            if any(grounding.tail.id in kept for grounding in path.groundings)
        ),
        notes=tuple(note for note in answer.notes if not (every and note.startswith(NOT_HERE))),
        confidence=answer.confidence if every else None,
    )


def _more(questions: Iterable[Asked]) -> bool:
    """Return whether more than one question may follow; True if their number is unknown."""
    return not isinstance(questions, list) or len(questions) > 1


def topic_entities(
    store: GraphStore, question: str, named: Sequence[str], notes: list[str]
) -> list[TopicEntity]:
    """Return the topic entities: the ``named`` ones (by id or name), else linked ones.

    Notes on ambiguous names are appended to ``notes``. Raises LinkingError, EntityNotFoundError.
    """
    from kgqa.answers.answer import TopicEntity
    from kgqa.linking import linker
    from kgqa.linking.resolve import resolve_entities
    from kgqa.linking.signs_and_symbols import as_written
    from kgqa.understanding.asked import asks_whether

    if len(named) > _MOST_TOPICS:
        raise UsageError(
            f"A question has up to {_MOST_TOPICS:,} topic entities, and {len(named):,} are named.",
            "Name fewer `entities`.",
        )
    if named:
        resolutions = resolve_entities(store, list(named))
        notes += [
            shared_name(resolution.name, resolution)
            for resolution in resolutions
            if resolution.others
        ]
        notes += _similar_name_notes([*named], resolutions)
        return [
            TopicEntity(resolution.key, resolution.id, resolution.name, 1.0)
            for resolution in resolutions
        ]
    candidates = linker.link(store, question)
    chosen = linker.topic_entities(candidates, two=asks_whether(question))
    for topic in chosen:
        span = (topic.start, topic.end)
        others = [
            candidate
            for candidate in candidates
            if (candidate.start, candidate.end) == span and candidate.id != topic.id
        ]
        if others:
            notes.append(
                f"{_INTERPRETED}'{topic.mention}' as {said_entity(topic.name, topic.id)}. "
                f"Others of that name: {_list_others(others)}. Choose with `entities`."
            )
    notes += _similar_name_notes(
        [as_written(question, candidate.start, candidate.end) for candidate in chosen], chosen
    )
    return [
        TopicEntity(
            candidate.key,
            candidate.id,
            candidate.name,
            round(candidate.score, 4),
            candidate.mention,
            linker.is_shared(candidate, candidates),
        )
        for candidate in chosen
    ]


def _similar_name_notes(texts: Sequence[str], resolutions: Sequence[Any]) -> list[str]:
    """Return notes on texts that were resolved to names with other symbols, [] if none was."""
    from kgqa.linking.signs_and_symbols import is_taken_for

    return [
        f"Took {said_name(text)} for {said_entity(resolution.name, resolution.id)}."
        for text, resolution in zip(texts, resolutions, strict=False)
        if is_taken_for(text, resolution.name)
    ]


def shared_name(asked: str, resolution: Resolution) -> str:
    """Return the note that several entities have the name ``asked``, and which one was taken."""
    return (
        f"Interpreted {said_name(asked)} as {resolution.id}, the best connected one; others: "
        f"{_list_others(resolution.others)}."
    )


def _list_others(resolutions: Sequence[Any]) -> str:
    """Join the first few entities into text, with the number of the others."""
    shown = ", ".join(
        said_entity(resolution.name, resolution.id) for resolution in resolutions[:_OTHERS]
    )
    more = len(resolutions) - _OTHERS
    return f"{shown} and {more} more" if more > 0 else shown
