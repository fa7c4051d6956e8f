"""The general LLM's prompt, and reading its answer back to entities.

The paths stand in the order of their scores, so the same question always makes the same prompt.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgqa.graph.names import normalise
from kgqa.reasoning.answer import RankedAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.paths.ground import Node
    from kgqa.reasoning.answer import ScoredPath

_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_TEMPLATE = """\
Facts from a knowledge graph, each a path that starts at an entity of the question:
{paths}

Question: {question}

Answer the question from these facts. Write every answer on a line of its own, as it is named in \
the facts, and nothing else. Where the facts do not answer the question, write: none"""


def general_prompt(question: str, paths: Sequence[ScoredPath]) -> str:
    """Return what the general LLM is asked."""
    listed = "\n".join(f"{path.text} (suggests: {path.hypothesis})" for path in paths)
    return _TEMPLATE.replace("{paths}", listed).replace("{question}", question)


def read_answers(text: str, paths: Sequence[ScoredPath]) -> list[RankedAnswer]:
    """Return the answers that a general LLM wrote, one a line, linked back to entities by name.

    An answer that no path holds has no id and is marked as not grounded. Scores fall with the
    line's place; a shared name gives every entity of that name, path ends before others.
    """
    nodes: dict[str, dict[str, Node]] = {}
    groundings = [one for path in paths for one in path.groundings]
    tails = [one.tail for one in groundings]
    inner = [edge.head for one in groundings for edge in one.edges]
    for node in [*tails, *inner]:
        nodes.setdefault(normalise(node.name), {})[node.id] = node
    lines = [_BULLET.sub("", line).strip().strip("\"'`*") for line in text.splitlines()]
    written = [line for line in dict.fromkeys(lines) if line and normalise(line) != "none"]
    answers: dict[str, RankedAnswer] = {}
    for place, line in enumerate(written):
        score = 1.0 / (place + 1)
        known = nodes.get(normalise(line), {})
        for node in known.values():
            answers.setdefault(node.id, RankedAnswer(node.id, node.name, score, True))
        if not known:
            answers.setdefault(f"\0{line}", RankedAnswer(None, line, score, False))
    return list(answers.values())
