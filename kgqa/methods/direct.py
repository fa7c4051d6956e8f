"""Baselines without the KG: the general LLM is asked the question as it stands.

``direct``: the answer at once; ``cot``: a chain of thought, then the answer; ``self-consistency``:
what most of several sampled chains end in. Answers are linked to entities of the KG by name, so
that they can be scored; none of them is grounded.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from kgqa.answers.answer import Findings, RankedAnswer, SearchUse, Timings
from kgqa.answers.choices import find_choices
from kgqa.answers.general import general_use, listed_lines, read_choice
from kgqa.answers.naming import in_graph
from kgqa.errors import KgqaError, UsageError
from kgqa.graph.names import normalise
from kgqa.methods.base import Method, OptionsT, several_at_once
from kgqa.methods.options import DirectOptions, SelfConsistencyOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Found, LinkedQuestion
    from kgqa.methods.resources import Resources
    from kgqa.models.general import Completion, GeneralLLM

_MARKER = re.compile(r"^\W*answers?\W*:\W*", re.IGNORECASE | re.MULTILINE)
_LISTED = (
    "Write every answer on a line of its own and nothing else. If you do not know, write: none"
)
_THINK = (
    'Think step by step. Then write a line that says only "Answers:", and after it every answer '
    "on a line of its own and nothing else. If you do not know, write: none"
)


class _WithoutGraph(Method[OptionsT]):
    """Answers of a general LLM alone: ``samples`` replies, with or without a chain of thought."""

    asks_general = True
    thinks = True
    samples = 1
    temperature = 0.0

    def __init__(self, options: OptionsT, resources: Resources, *, general: bool = True) -> None:
        super().__init__(options, resources, general=general)
        if self.general is None:
            raise UsageError(
                f"The method {self.name} is answered by a general LLM, and none is named.",
                "Name one with `general_model`.",
            )
        self._general: GeneralLLM = self.general

    def own_settings(self) -> dict[str, Any]:
        """Return nothing but that there are no paths."""
        return {"k": None}

    def findings(self, store: GraphStore, questions: Iterable[LinkedQuestion | KgqaError]) -> Found:
        """Yield each question's number with what was found out about it, as they come.

        One failed call of a question fails it.
        """
        asked: dict[int, LinkedQuestion] = {}
        replies: dict[int, dict[int, Completion | KgqaError]] = {}
        began: dict[int, float] = {}

        def calls() -> Iterator[tuple[int, int, LinkedQuestion | KgqaError]]:
            for number, question in enumerate(questions):
                if isinstance(question, KgqaError):
                    yield number, 0, question
                    continue
                asked[number] = question
                began[number] = time.perf_counter()
                for sample in range(self.samples):
                    yield number, sample, question

        for (number, sample, _), reply in several_at_once(
            calls(), self._call, self.options.concurrency
        ):
            if number not in asked:
                assert isinstance(reply, KgqaError)
                yield number, reply
                continue
            mine = replies.setdefault(number, {})
            mine[sample] = reply
            if len(mine) < self.samples:
                continue
            every = [one for _, one in sorted(replies.pop(number).items())]  # in a fixed order
            failed = [one for one in every if isinstance(one, KgqaError)]
            written = [one for one in every if not isinstance(one, KgqaError)]
            seconds = time.perf_counter() - began.pop(number)
            try:
                if failed:
                    raise failed[0]
                yield number, self._found(store, asked.pop(number), written, seconds)
            except KgqaError as error:
                yield number, error

    def _call(self, item: tuple[int, int, LinkedQuestion | KgqaError]) -> Completion:
        _, sample, question = item
        if isinstance(question, KgqaError):
            raise question
        return self._general.complete(
            prompt(question.question, question.choices, think=self.thinks),
            max_tokens=self.options.answer_tokens,
            temperature=self.temperature,
            seed=sample if self.temperature else None,
        )

    def _found(
        self,
        store: GraphStore,
        question: LinkedQuestion,
        written: Sequence[Completion],
        seconds: float,
    ) -> Findings:
        lists = [read_lines(one.text, marked=self.thinks) for one in written]
        others: list[RankedAnswer] = []
        if question.choices:
            votes = Counter(line for lines in lists for line in lines[:1])
            line = votes.most_common(1)[0][0] if votes else ""
            answers = read_choice(line, find_choices(store, question.choices), ())
        else:
            agreed, rest = majority(lists)
            linked = link_names(store, [*agreed, *rest])
            answers, others = linked[: len(agreed)], linked[len(agreed) :]
        return Findings(
            answers=tuple(answers),
            general_llm=general_use(self._general, written),
            timings=Timings(answer=seconds),
            search=SearchUse("none"),
            others=tuple(others),
        )


class Direct(_WithoutGraph[DirectOptions]):
    """The answer at once."""

    name = "direct"
    Options = DirectOptions
    thinks = False


class ChainOfThought(_WithoutGraph[DirectOptions]):
    """A chain of thought, then the answer."""

    name = "cot"
    Options = DirectOptions


class SelfConsistency(_WithoutGraph[SelfConsistencyOptions]):
    """The vote of several sampled chains of thought."""

    name = "self-consistency"
    Options = SelfConsistencyOptions

    def __init__(
        self, options: SelfConsistencyOptions, resources: Resources, *, general: bool = True
    ) -> None:
        super().__init__(options, resources, general=general)
        self.samples, self.temperature = options.samples, options.temperature

    def own_settings(self) -> dict[str, Any]:
        """Return how the chains are sampled."""
        return {"k": None, "samples": self.samples, "temperature": self.temperature}


def prompt(question: str, choices: Sequence[str] = (), *, think: bool = False) -> str:
    """Return what the general LLM is asked."""
    listed = ""
    if choices:
        listed = "\n\nThe answer is one of these:\n" + "\n".join(f"- {one}" for one in choices)
    return f"Question: {question}{listed}\n\n{_THINK if think else _LISTED}"


def read_lines(text: str, *, marked: bool) -> list[str]:
    """Return the answers that a reply lists, each once.

    ``marked``: they stand after the last line that says "Answers:"; if there is none, the last
    line that is not blank is taken for the answer.
    """
    if marked:
        places = list(_MARKER.finditer(text))
        if places:
            text = text[places[-1].end() :]
        else:
            text = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    found: dict[str, str] = {}
    for line in listed_lines(text):
        form = normalise(line)
        if form and form != "none":
            found.setdefault(form, line)
    return list(found.values())


def majority(lists: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return the answers that at least half of the ``lists`` hold, and the others.

    Most votes first. If none is in half of them, those with the most votes stand for the
    answers. Names are compared as stores do.
    """
    votes: Counter[str] = Counter()
    shown: dict[str, str] = {}
    for lines in lists:
        votes.update(list(dict.fromkeys(map(normalise, lines))))
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
