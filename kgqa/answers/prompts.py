"""The general LLM's prompt, and reading its answer back to entities.

The paths stand in the order of their scores, so the same question always makes the same prompt.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgqa.answers.answer import RankedAnswer
from kgqa.answers.naming import PathNames, form_of, in_graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import ScoredPath
    from kgqa.graph.store import GraphStore

_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_TEMPLATE = """\
Facts from a knowledge graph, each a path that starts at an entity of the question:
{paths}

Question: {question}

Answer the question from these facts. Write every answer on a line of its own, as it is named in \
the facts, and nothing else. Where the facts do not answer the question, write: none"""


def general_prompt(question: str, paths: Sequence[ScoredPath]) -> str:
    """Return what the general LLM is asked: the paths best first, equal ones by their text."""
    ordered = sorted(paths, key=lambda path: (-path.score, path.text))
    lines = dict.fromkeys(_line(path) for path in ordered)
    head, rest = _TEMPLATE.split("{paths}")
    middle, last = rest.split("{question}")
    return "".join([head, "\n".join(lines) or "none", middle, question, last])


def read_answers(
    text: str, paths: Sequence[ScoredPath], store: GraphStore | None = None
) -> list[RankedAnswer]:
    """Return the answers that a general LLM wrote, one a line, linked back to entities.

    A line means the entity of the paths that is called so, else the ends of paths whose names it
    holds (:mod:`kgqa.answers.naming`), else the best connected entity of that name in ``store``.
    Only one that a path, or the beginning of one, ends in is grounded; one that is found nowhere
    has no id. Scores fall with the line's place; a shared name gives every entity of that name.
    Raises GraphError.
    """
    lines = [_BULLET.sub("", line).strip().strip("\"'`*") for line in text.splitlines()]
    written = [line for line in dict.fromkeys(lines) if line and form_of(line) != "none"]
    names = PathNames(one for path in paths for one in path.groundings)
    known = [names.exact(line) or names.contained(line) for line in written]
    strange = [line for line, nodes in zip(written, known, strict=True) if not nodes]
    looked_up = iter(in_graph(store, strange) if store is not None else [None] * len(strange))
    answers: dict[str, RankedAnswer] = {}
    for place, (line, nodes) in enumerate(zip(written, known, strict=True)):
        score = 1.0 / (place + 1)
        for node in nodes:
            grounded = names.is_grounded(node)
            answers.setdefault(node.id, RankedAnswer(node.id, node.name, score, grounded))
        if nodes:
            continue
        if (node_or_none := next(looked_up)) is not None:
            found = RankedAnswer(node_or_none.id, node_or_none.name, score, False)
            answers.setdefault(node_or_none.id, found)
        else:
            answers.setdefault(f"\0{line}", RankedAnswer(None, line, score, False))
    return list(answers.values())


def _line(path: ScoredPath) -> str:
    return f"{path.text} (suggests: {path.hypothesis})"
