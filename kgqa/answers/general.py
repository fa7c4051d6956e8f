"""What a general LLM makes of a method's paths: its prompt, its reply linked back to entities.

The paths stand in the order of their scores, so the same question always makes the same prompt. The
call and the reading are apart, so that calls may go on in threads while a store is read in one.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgqa.answers.answer import GeneralLlmUse, RankedAnswer
from kgqa.answers.choices import find_choices, rank_choices
from kgqa.answers.naming import PathNames, denies, form_of, in_graph, is_name_of
from kgqa.graph.names import normalise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import Answer, ScoredPath
    from kgqa.answers.choices import AnswerChoice
    from kgqa.graph.store import GraphStore
    from kgqa.models.general import Completion, GeneralLLM

_BULLET = re.compile(
    r"^(?:\s*(?:[-*•]|\d+[.)])\s+|\W*(?:final )?answers?\W*[:=]\W*)+", re.IGNORECASE
)
_LABEL = re.compile(r"^[(\[]?[A-Za-z](?:[)\]]\s*|[.:]\s+)")  # of a choice, as in "B) Paris"
_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_CLAUSE = re.compile(r"[,;.:!?]\s|\bbut\b", re.IGNORECASE)
_MOST_LINES = 1_000  # of a reply that are read
_LONGEST = 2_000  # characters of a line that may hold an answer
_PLACE = re.compile(r"\{(paths|question|choices)\}")
_OPEN = """\
Facts from a knowledge graph, each a path that starts at an entity of the question:
{paths}

Question: {question}

Answer the question from these facts. Write every answer on a line of its own, as it is named in \
the facts, and nothing else. Where the facts do not answer the question, write: none"""
_CHOICE = """\
Facts from a knowledge graph, each a path from an entity of the question to one of the choices:
{paths}

Question: {question}
Choices:
{choices}

Which choice answers the question best? Write it as it stands in the list, and nothing else."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the general LLM wrote about a question's paths, and the seconds that it took."""

    written: Completion
    seconds: float


def ask_general(
    general: GeneralLLM, answer: Answer, choices: Sequence[str] = (), max_tokens: int | None = None
) -> Reply:
    """Ask ``general`` the question of ``answer`` with the paths that were found for it.

    ``choices``: for multiple choice, what may be answered; ``max_tokens``: how long the reply may
    be, None as the server has it. Reads no store. Raises GeneralModelError.
    """
    began = time.perf_counter()
    prompt = general_prompt(answer.question, answer.paths, choices)
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

    One that no path shows is marked as not grounded. Raises GraphError if the store fails.
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


def general_prompt(question: str, paths: Sequence[ScoredPath], choices: Sequence[str] = ()) -> str:
    """Return what the general LLM is asked: the paths best first, equal ones by their text.

    Those to ``choices`` stand in their own order, without what they suggest.
    """
    if choices:
        lines = [path.text for path in paths]
    else:
        ordered = sorted(paths, key=lambda path: (-path.score, path.text))
        shown = (f"{path.text} (suggests: {path.hypothesis})" for path in ordered)
        lines = list(dict.fromkeys(shown))
    values = {
        "paths": "\n".join(lines) or "none",
        "question": question,
        "choices": "\n".join(f"- {one}" for one in choices),
    }
    # in one pass: a name may itself contain "{question}"
    return _PLACE.sub(lambda place: values[place[1]], _CHOICE if choices else _OPEN)


def listed_lines(text: str) -> list[str]:
    """Return the lines of a reply that may be answers, without bullets and quotation marks.

    Left out are what a reasoning model thinks, headings, and what stands below one that denies.
    """
    found: list[str] = []
    denied = False
    for whole in _THOUGHTS.sub("", text).splitlines():
        line = _BULLET.sub("", whole).strip().strip("\"'`*").strip()
        if whole.rstrip(" *_").endswith(":"):
            denied = denies(whole)
        elif line and not denied and len(line) <= _LONGEST:
            found.append(line)
            if len(found) == _MOST_LINES:
                break
    return found


def read_answers(
    text: str, paths: Sequence[ScoredPath], store: GraphStore | None = None
) -> list[RankedAnswer]:
    """Return the answers that a general LLM wrote, one a line, linked back to entities.

    A line means the entity of the paths that is called so, else the best connected entity of that
    name in ``store``, else itself, with no id. Only what a path, or the beginning of one, ends in
    is grounded. Ends of paths that a longer line mentions come after all of these, marked as such;
    what a line denies is not an answer. Raises GraphError.
    """
    written = [line for line in dict.fromkeys(listed_lines(text)) if form_of(line) != "none"]
    names = PathNames(one for path in paths for one in path.groundings)
    known = [names.exact(line) for line in written]
    strange = [line for line, nodes in zip(written, known, strict=True) if not nodes]
    looked_up = iter(in_graph(store, strange) if store is not None else [None] * len(strange))
    answers: dict[str, RankedAnswer] = {}
    mentioned: dict[str, RankedAnswer] = {}
    denied: set[str] = set()
    for place, (line, nodes) in enumerate(zip(written, known, strict=True)):
        score = 1.0 / (place + 1)
        found = None if nodes else next(looked_up)
        inside = [] if nodes or found else names.contained(line)
        if denies(line, [node.name for node in (*nodes, *inside, *([found] if found else []))]):
            clauses = [part for part in _CLAUSE.split(line) if denies(part)]
            denied.update(node.id for part in clauses for node in names.contained(part))
            if nodes or found or inside:
                continue
        for node in nodes:
            grounded = names.is_grounded(node)
            answers.setdefault(node.id, RankedAnswer(node.id, node.name, score, grounded))
        if found is not None:
            answers.setdefault(found.id, RankedAnswer(found.id, found.name, score, False))
        elif not nodes:
            answers.setdefault(f"\0{line}", RankedAnswer(None, line, score, False))
        for node in inside:
            score = 1.0 / (len(written) + len(mentioned) + 1)
            one = RankedAnswer(node.id, node.name, score, names.is_grounded(node), mentioned=True)
            mentioned.setdefault(node.id, one)
    every = {**answers, **{id_: one for id_, one in mentioned.items() if id_ not in answers}}
    return [one for id_, one in every.items() if id_ not in denied]


def read_choice(
    text: str, choices: Sequence[AnswerChoice], paths: Sequence[ScoredPath]
) -> list[RankedAnswer]:
    """Return all choices: the one that a general LLM wrote, then the others as the paths rank them.

    Written is what has a line of its own, a letter before it aside. It gets half of all probability
    beside half of its own, so that scores still sum to at most 1. If no choice was written, or
    several, or it was denied, the ranking of the paths stands. Those that a longer line mentions
    are marked as such, unless the paths have them first or a line denies them.
    """
    ranked = rank_choices(choices, paths)
    written: list[AnswerChoice] = []
    named: set[str] = set()
    denied: set[str] = set()
    for line in listed_lines(text):
        form = f" {form_of(line)} "
        inside = [one for one in choices if f" {form_of(one.text)} " in form]
        said = _called(line, choices)
        texts = {one.text for one in (*inside, *said)}
        if denies(line, texts):
            denied |= texts
        elif said:
            written += said
        else:
            named |= texts
    kept = {one.text: one for one in written if one.text not in denied}
    if len(kept) == 1:
        (chosen,) = kept.values()
        mine = [_stands_for(one, chosen) for one in ranked]
        scores = [one.score / 2 + 0.5 * its for one, its in zip(ranked, mine, strict=True)]
        ranked = [replace(one, score=score) for one, score in zip(ranked, scores, strict=True)]
        return sorted(ranked, key=lambda one: -one.score)
    only = [one for one in choices if one.text in named - denied - kept.keys()]
    marked = [replace(one, mentioned=any(_stands_for(one, its) for its in only)) for one in ranked]
    return [*ranked[:1], *marked[1:]]


def _called(line: str, choices: Sequence[AnswerChoice]) -> list[AnswerChoice]:
    """Return the choices that ``line`` is the name of, letter by letter if there are such."""
    for text in (line, _LABEL.sub("", line)):
        named = [one for one in choices if is_name_of(text, one.text)]
        if named:
            return [one for one in named if normalise(one.text) == normalise(text)] or named
    return []


def _stands_for(answer: RankedAnswer, choice: AnswerChoice) -> bool:
    return answer.id in choice.ids if answer.id is not None else answer.name == choice.text
