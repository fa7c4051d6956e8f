"""No KG at all: the general LLM is asked the question as it stands.

Three baselines: ``direct`` (the answer at once), ``cot`` (a chain of thought, then the answer) and
``self-consistency`` (several chains of thought are sampled, and what most of them end in is the
answer). Answers are linked to entities of the KG by name, so that they can be scored; nothing of
them is grounded. What it does not do: show the model anything but the question.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kgqa.answers.answer import Answer, RankedAnswer, SearchUse, Timings
from kgqa.answers.choices import find_choices, read_choice
from kgqa.answers.general_answer import general_use
from kgqa.answers.naming import in_graph
from kgqa.errors import KgqaError, UsageError
from kgqa.graph.names import normalise
from kgqa.methods.base import CONCURRENCY, NO_KG_LLM, several_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Numbered
    from kgqa.methods.gcr import Asking
    from kgqa.models.general import GeneralLLM
    from kgqa.models.general_cache import Completion
    from kgqa.paths.walk import WalkRules

Way: TypeAlias = Literal["direct", "cot", "self-consistency"]
SAMPLES = 5
TEMPERATURE = 0.7
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_MARKER = re.compile(r"^\W*answers?\W*:\W*", re.IGNORECASE | re.MULTILINE)
_LISTED = (
    "Write every answer on a line of its own and nothing else. If you do not know, write: none"
)
_THINK = (
    'Think step by step. Then write a line that says only "Answers:", and after it every answer '
    "on a line of its own and nothing else. If you do not know, write: none"
)


@dataclass(frozen=True, slots=True)
class Direct:
    """Answers of a general LLM alone. A :class:`kgqa.methods.base.Method`.

    ``walks`` says which walks of a store count as paths to an answer; none is walked here.
    ``samples`` and ``temperature`` are of ``self-consistency``. ``concurrency``: calls at a time.
    ``max_tokens``: how long a reply may be, None as the server has it.
    """

    way: Way
    general: GeneralLLM
    walks: Callable[[GraphStore], WalkRules]
    samples: int = SAMPLES
    temperature: float = TEMPERATURE
    concurrency: int = CONCURRENCY
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise UsageError(f"Self-consistency needs at least one sample, not {self.samples}.")

    @property
    def name(self) -> str:
        """The method's name."""
        return self.way

    def rules(self, store: GraphStore) -> WalkRules:
        """Return which walks of ``store`` are paths."""
        return self.walks(store)

    def answers(self, store: GraphStore, questions: Iterable[Asking | KgqaError]) -> Numbered:
        """Yield each question's number with its answer or its error, as they come.

        One failed call of a question fails it.
        """
        drawn = self.way == "self-consistency"
        asked: dict[int, Asking] = {}
        replies: dict[int, dict[int, Completion | KgqaError]] = {}
        began: dict[int, float] = {}

        def calls() -> Iterator[tuple[int, int, Asking | KgqaError]]:
            for number, asking in enumerate(questions):
                if isinstance(asking, KgqaError):
                    yield number, 0, asking
                    continue
                asked[number] = asking
                began[number] = time.perf_counter()
                for sample in range(self.samples if drawn else 1):
                    yield number, sample, asking

        def call(item: tuple[int, int, Asking | KgqaError]) -> Completion:
            _, sample, asking = item
            if isinstance(asking, KgqaError):
                raise asking
            return self.general.complete(
                prompt(asking.question, asking.choices, think=self.way != "direct"),
                max_tokens=self.max_tokens,
                temperature=self.temperature if drawn else 0.0,
                seed=sample if drawn else None,
            )

        for (number, sample, _), reply in several_at_once(calls(), call, self.concurrency):
            if number not in asked:
                assert isinstance(reply, KgqaError)
                yield number, reply
                continue
            mine = replies.setdefault(number, {})
            mine[sample] = reply
            if len(mine) < (self.samples if drawn else 1):
                continue
            replies.pop(number)
            failed = [one for one in mine.values() if isinstance(one, KgqaError)]
            if failed:
                yield number, failed[0]
                continue
            written = [mine[place] for place in sorted(mine)]  # the same whatever came first
            texts = [one for one in written if not isinstance(one, KgqaError)]
            seconds = time.perf_counter() - began.pop(number)
            try:
                yield number, self._answer(store, asked.pop(number), texts, seconds)
            except KgqaError as error:
                yield number, error

    def _answer(
        self, store: GraphStore, asking: Asking, written: Sequence[Completion], seconds: float
    ) -> Answer:
        lists = [read_lines(one.text, marked=self.way != "direct") for one in written]
        others: list[RankedAnswer] = []
        if asking.choices:
            votes = Counter(line for lines in lists for line in lines[:1])
            line = votes.most_common(1)[0][0] if votes else ""
            answers = read_choice(line, find_choices(store, asking.choices), ())
        else:
            agreed, rest = majority(lists)
            linked = link_names(store, [*agreed, *rest])
            answers, others = linked[: len(agreed)], linked[len(agreed) :]
        return Answer(
            question=asking.question,
            method=self.way,
            topic_entities=asking.topics,
            answers=tuple(answers),
            paths=(),
            constraints=(),
            kg_llm=NO_KG_LLM,
            general_llm=general_use(self.general, written),
            timings=Timings(link=asking.link_seconds, answer=seconds),
            forwards=0,
            search=SearchUse("none"),
            others=tuple(others),
        )


def prompt(question: str, choices: Sequence[str] = (), *, think: bool = False) -> str:
    """Return what the general LLM is asked."""
    listed = ""
    if choices:
        listed = "\n\nThe answer is one of these:\n" + "\n".join(f"- {one}" for one in choices)
    return f"Question: {question}{listed}\n\n{_THINK if think else _LISTED}"


def read_lines(text: str, *, marked: bool) -> list[str]:
    """Return the answers that a reply lists, each once.

    ``marked``: they stand after the last line that says "Answers:"; where there is none, the last
    line that is not blank is taken for the answer.
    """
    if marked:
        places = list(_MARKER.finditer(text))
        if places:
            text = text[places[-1].end() :]
        else:
            text = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    lines = [_BULLET.sub("", line).strip().strip("\"'`*").strip() for line in text.splitlines()]
    found: dict[str, str] = {}
    for line in lines:
        form = normalise(line)
        if form and form != "none":
            found.setdefault(form, line)
    return list(found.values())


def majority(lists: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return the answers that at least half of the ``lists`` hold, and the others.

    Most votes first. Where none is in half of them, those with the most votes stand for the
    answers. Names are compared as stores do.
    """
    votes: Counter[str] = Counter()
    shown: dict[str, str] = {}
    for lines in lists:
        for form in dict.fromkeys(normalise(line) for line in lines):
            votes[form] += 1
        for line in lines:
            shown.setdefault(normalise(line), line)
    if not votes:
        return [], []
    ranked = sorted(votes, key=lambda form: -votes[form])  # stable: as they were first written
    least = min(len(lists) / 2, votes[ranked[0]])
    return (
        [shown[form] for form in ranked if votes[form] >= least],
        [shown[form] for form in ranked if votes[form] < least],
    )


def link_names(store: GraphStore, names: Sequence[str]) -> list[RankedAnswer]:
    """Return an answer for each name: the best connected entity of it, or the name alone.

    None is grounded; scores fall with the place. Raises GraphError.
    """
    return [
        RankedAnswer(
            None if node is None else node.id,
            name if node is None else node.name,
            1.0 / (1 + place),
            grounded=False,
        )
        for place, (name, node) in enumerate(zip(names, in_graph(store, names), strict=True))
    ]
