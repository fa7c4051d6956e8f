"""What a general LLM makes of a method's answer: its paths in one prompt, its text linked back.

The call and the reading are apart, so that calls may go on in threads while a store is read in one.
What it does not do: find paths, or ask several questions at once (``kgqa.methods.base``).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgqa.answers.answer import GeneralLlmUse
from kgqa.answers.choices import choice_prompt, find_choices, read_choice
from kgqa.answers.prompts import general_prompt, read_answers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import Answer
    from kgqa.graph.store import GraphStore
    from kgqa.models.general import GeneralLLM
    from kgqa.models.general_cache import Completion


@dataclass(frozen=True, slots=True)
class Reply:
    """What the general LLM wrote about a question's paths, and the seconds that it took."""

    written: Completion
    seconds: float


def ask_general(
    general: GeneralLLM, answer: Answer, choices: Sequence[str] = (), max_tokens: int | None = None
) -> Reply:
    """Ask ``general`` the question of ``answer`` with the paths that were found for it.

    ``choices``: where it is multiple choice, what may be answered; ``max_tokens``: what the reply
    may be long, None as the server has it. Reads no store. Raises GeneralModelError.
    """
    began = time.perf_counter()
    prompt = (
        choice_prompt(answer.question, choices, answer.paths)
        if choices
        else general_prompt(answer.question, answer.paths)
    )
    written = general.complete(prompt, max_tokens=max_tokens)
    return Reply(written, time.perf_counter() - began)


def with_reply(
    store: GraphStore,
    answer: Answer,
    general: GeneralLLM,
    reply: Reply,
    choices: Sequence[str] = (),
) -> Answer:
    """Return ``answer`` with the answers that ``reply`` names, in place of those it had.

    One that no path shows is marked as not grounded. Raises GraphError where the store fails.
    """
    if choices:
        ranked = read_choice(reply.written.text, find_choices(store, choices), answer.paths)
    else:
        ranked = read_answers(reply.written.text, answer.paths, store)
    return replace(
        answer,
        answers=tuple(ranked),
        others=(),
        expanded=(),
        confidence=None,
        general_llm=general_use(general, [reply.written]),
        timings=replace(answer.timings, answer=answer.timings.answer + reply.seconds),
    )


def general_use(general: GeneralLLM, written: Sequence[Completion]) -> GeneralLlmUse:
    """Return what a question's calls cost; those that a cache answered as when they were made."""
    return GeneralLlmUse(
        model=general.model,
        calls=len(written),
        prompt_tokens=sum(one.prompt_tokens for one in written),
        completion_tokens=sum(one.completion_tokens for one in written),
    )
