"""The general LLM's part: it chooses among a method's paths by number.

The prompt numbers every path and every beginning of one; the reply is an object of numbers, by a
JSON schema where the server knows schemas. Nothing else is an answer: a denial, a thought or a name
cannot be mistaken for one. The call and the reading are apart, so that calls may go on in threads
while a store is read in one.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kgqa.answers.answer import GeneralLlmUse, RankedAnswer
from kgqa.answers.choices import chosen_first, find_choices, rank_choices
from kgqa.display import LONGEST, path_parts, said_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.answers.answer import Answer, ScoredPath
    from kgqa.graph.store import GraphStore
    from kgqa.models.general import Completion, GeneralLLM
    from kgqa.paths.ground import Node, PathEdge

NOT_KEPT = "The general LLM's reply was not of the form asked for; the answers are the paths' own."
NONE_FITS = "The general LLM finds no answer in these facts."
_THOUGHTS = re.compile(r"\s*(?:<(\w+)>.*?</\1>|\[(\w+)\].*?\[/\2\])", re.DOTALL)
_FENCE = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)
_LONGEST = 20_000  # characters of a reply without its thoughts
_PLACE = re.compile(r"\{(paths|question|choices)\}")
_NAMES = "E"  # what a masked name is called, with its number
_OPEN = """\
Facts from a knowledge graph, each a numbered path that starts at an entity of the question:
{paths}

Question: {question}

Which paths end in an answer to the question? Reply with a JSON object of their numbers, the best \
first, such as {"answers": [3, 1]}, and with nothing else. If none does, reply {"answers": []}."""
_CHOICE = """\
Facts from a knowledge graph, each a path from an entity of the question to one of the choices:
{paths}

Question: {question}
Choices:
{choices}

Which choice answers the question best? Reply with a JSON object of its number, such as \
{"answers": [2]}, and with nothing else. If none does, reply {"answers": []}."""


_PLANS = """\
Readings of a question about a graph, each numbered:
{paths}

Question: {question}

Which reading asks what the question asks? Reply with a JSON object of its number, such as \
{"answers": [2]}, and with nothing else. If none does, reply {"answers": []}."""


def reply_schema(count: int) -> dict[str, Any]:
    """Return the JSON schema of a reply that chooses among ``count`` numbers."""
    numbers = {"type": "array", "items": {"type": "integer", "enum": [*range(1, count + 1)]}}
    return {
        "type": "object",
        "properties": {"answers": numbers},
        "required": ["answers"],
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class Reply:
    """The general LLM's reply to a question with its paths, and the seconds that it took."""

    written: Completion
    seconds: float


@dataclass(frozen=True, slots=True)
class Listed:
    """A numbered line of the prompt: its edges, and the entities that they end in."""

    edges: tuple[PathEdge, ...]
    ends: tuple[Node, ...]


def ask_general(
    general: GeneralLLM,
    answer: Answer,
    choices: Sequence[str] = (),
    max_tokens: int | None = None,
    *,
    masked: bool = False,
) -> Reply:
    """Ask ``general`` the question of ``answer`` with its paths, and return the reply.

    ``choices``: the permitted answers of multiple choice; ``max_tokens``: of the reply, None: the
    server's default; ``masked``: names are not sent. Reads no store. Raises GeneralModelError.
    """
    began = time.perf_counter()
    prompt = general_prompt(answer, choices, masked=masked)
    count = len(choices) or len(listed(answer.paths))
    written = general.complete(prompt, max_tokens=max_tokens, schema=reply_schema(count))
    return Reply(written, time.perf_counter() - began)


def with_reply(
    store: GraphStore,
    answer: Answer,
    general: GeneralLLM,
    reply: Reply,
    choices: Sequence[str] = (),
) -> Answer:
    """Return ``answer`` with the answers that ``reply`` chose, and the cost of the call.

    If the reply is malformed, the answer keeps its own; if it chose none, no answer is left, but
    choices are ranked by their paths; a note says so. Raises GraphError.
    """
    lines = listed(answer.paths)
    numbers = read_numbers(reply.written.text, len(choices) or len(lines), single=bool(choices))
    changed: dict[str, Any] = {
        "general_llm": general_use(general, [reply.written]),
        "timings": replace(answer.timings, answer=answer.timings.answer + reply.seconds),
    }
    if numbers is None:
        return replace(answer, **changed, notes=(*answer.notes, NOT_KEPT))
    if choices:
        answer_choices = find_choices(store, choices)
        ranked = rank_choices(answer_choices, answer.paths)
        if numbers:
            ranked = chosen_first(ranked, answer_choices[numbers[0] - 1])
    else:
        ends = [node for number in numbers for node in lines[number - 1].ends]
        ranked = [
            RankedAnswer(node.id, node.name, 1.0 / place, grounded=True)
            for place, node in enumerate(dict.fromkeys(ends), 1)
        ]
    notes = answer.notes if numbers else (*answer.notes, NONE_FITS)
    changed |= {"others": (), "expanded": (), "confidence": None, "notes": notes}
    return replace(answer, **changed, answers=tuple(ranked))


def ask_which(
    general: GeneralLLM,
    question: str,
    readings: Sequence[str],
    names: Iterable[str] = (),
    max_tokens: int | None = None,
) -> tuple[list[int] | None, GeneralLlmUse]:
    """Ask ``general`` to choose among the readings of a question; return its choice and cost.

    The choice is a list of one number from 1, an empty list if no reading fits, or None for a
    malformed reply. ``names`` are masked. Raises GeneralModelError.
    """
    mask = _mask(names)
    values = {
        "paths": "\n".join(f"{number}. {text}" for number, text in enumerate(readings, 1)),
        "question": question,
    }
    prompt = _PLACE.sub(lambda place: _masked(values[place[1]], mask), _PLANS)
    schema = reply_schema(len(readings))
    written = general.complete(prompt, max_tokens=max_tokens, schema=schema)
    numbers = read_numbers(written.text, len(readings), single=True)
    return numbers, general_use(general, [written])


def general_use(general: GeneralLLM, written: Sequence[Completion]) -> GeneralLlmUse:
    """Return the cost of a question's calls; cached calls count as they did when made."""
    return GeneralLlmUse(
        model=general.model,
        calls=len(written),
        prompt_tokens=sum(reply.prompt_tokens for reply in written),
        completion_tokens=sum(reply.completion_tokens for reply in written),
    )


def listed(paths: Iterable[ScoredPath]) -> list[Listed]:
    """Return the paths and their prefixes, best first, ties by text; equal texts are merged."""
    options: dict[tuple[str, ...], Listed] = {}
    for path in sorted(paths, key=lambda path: (-path.score, path.text)):
        for grounding in path.groundings:
            for length in range(1, len(grounding.edges) + 1):
                edges = grounding.edges[:length]
                read = (
                    edges[0].head.name,
                    *(f"{edge.relation}\0{edge.tail.name}" for edge in edges),
                )
                known = options.get(read, Listed(edges, ()))
                ends = tuple(dict.fromkeys((*known.ends, edges[-1].tail)))
                options[read] = replace(known, ends=ends)
    return list(options.values())


def general_prompt(answer: Answer, choices: Sequence[str] = (), *, masked: bool = False) -> str:
    """Return the prompt for the general LLM; it does not depend on the order of the paths.

    ``masked``: each name is replaced by a letter and a number, also in the question; only relations
    and the rest of the question are sent.
    """
    lines = listed(answer.paths)
    names = [node.name for line in lines for edge in line.edges for node in (edge.head, edge.tail)]
    topics = [text for entity in answer.topic_entities for text in (entity.name, entity.mention)]
    mask = _mask([*filter(None, topics), *names, *choices]) if masked else {}
    question = _masked(answer.question, mask) if masked else answer.question
    walked = [[_hidden(edge, mask) if masked else edge for edge in line.edges] for line in lines]
    shown = ["".join(path_parts(edges, LONGEST)) for edges in walked]
    values = {
        "paths": "\n".join(f"{number}. {text}" for number, text in enumerate(shown, 1)) or "none",
        "question": question,
        "choices": "\n".join(
            f"{number}. {mask.get(choice.casefold()) or said_name(choice)}"
            for number, choice in enumerate(choices, 1)
        ),
    }
    # in one pass: a name may itself contain "{question}"
    return _PLACE.sub(lambda place: values[place[1]], _CHOICE if choices else _OPEN)


def _hidden(edge: PathEdge, mask: dict[str, str]) -> PathEdge:
    """Return an edge with its names masked."""
    head, tail = (replace(node, name=mask[node.name.casefold()]) for node in (edge.head, edge.tail))
    return replace(edge, head=head, tail=tail)


def _mask(names: Iterable[str]) -> dict[str, str]:
    """Return a mask, a letter and a number, for each name, by casefolded name."""
    forms = dict.fromkeys(name.casefold() for name in names)
    return {form: f"{_NAMES}{number}" for number, form in enumerate(forms, 1)}


def _masked(text: str, mask: dict[str, str]) -> str:
    """Return ``text`` with every name in ``mask`` replaced, the longest first."""
    either = "|".join(map(re.escape, sorted(mask, key=len, reverse=True)))
    pattern = re.compile(rf"(?<!\w)(?:{either})(?!\w)", re.IGNORECASE)
    return pattern.sub(lambda match: mask.get(match[0].casefold(), _NAMES), text) if mask else text


def read_numbers(text: str, count: int, *, single: bool = False) -> list[int] | None:
    """Parse the numbers from 1 to ``count`` that a reply chooses; None if it is malformed.

    The form is one JSON object and nothing else, but for thoughts in tags before it and a fence
    around it. ``single``: more than one number is malformed. An empty list is a choice of none.

    >>> read_numbers('{"answers": [2, 1]}', 3), read_numbers('Not these: {"answers": [2]}', 3)
    ([2, 1], None)
    """
    if thoughts := _THOUGHTS.match(text):
        text = text[thoughts.end() :]
    text = text.strip()
    if fenced := _FENCE.fullmatch(text):
        text = fenced[1]
    try:
        pairs = json.loads(text, object_pairs_hook=list) if len(text) <= _LONGEST else None
    except (ValueError, RecursionError):
        return None
    if (
        not isinstance(pairs, list)
        or len(pairs) != 1
        or text[:1] != "{"
        or pairs[0][0] != "answers"
    ):
        return None
    numbers = pairs[0][1]
    if not isinstance(numbers, list) or not all(type(n) is int and 0 < n <= count for n in numbers):
        return None
    return None if single and len(numbers) > 1 else list(dict.fromkeys(numbers))
