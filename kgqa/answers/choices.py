"""Multiple choice: what the choices mean, the paths that end in them, and what paths say of each.

The paths are found from both ends: how far each entity is from a choice is known
before the first hop is taken, and no walk goes where no choice can be reached any more, so a hub
between question and choice costs its edges, not its paths.

What it does not do: link topic entities, decode, or ask a general LLM (its prompt is made here).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import RankedAnswer
from kgqa.answers.expand import AGAINST, FRONTIER, hops_in_turn
from kgqa.errors import EmptyLanguageError, UsageError
from kgqa.graph.model import Kind
from kgqa.graph.names import normalise
from kgqa.paths.walk import (
    TAIL,
    PathTable,
    WalkRules,
    admissible,
    empty_paths,
    joined_tables,
    ordered,
    ranges,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import ScoredPath
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore

MOST_PATHS = 200_000  # of all topic entities to all choices: what one constraint holds in memory
_TEMPLATE = """\
Facts from a knowledge graph, each a path from an entity of the question to one of the choices:
{paths}

Question: {question}
Choices:
{choices}

Which choice answers the question best? Write it as it stands in the list, and nothing else."""


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """A choice as it was given, with the ids of the entities that it means (none: not in the KG).

    ``keys`` are the store's keys of ``ids``.
    """

    text: str
    ids: tuple[str, ...]
    keys: tuple[int, ...]


def parse_choices(text: str) -> list[str]:
    r"""Return the choices of ``--choices a,b,c``; a comma inside one is written ``\,``.

    Raises UsageError where there are fewer than two different ones.

    >>> parse_choices(r"Paris, Washington\, D.C.")
    ['Paris', 'Washington, D.C.']
    """
    parts = text.replace("\\,", "\0").split(",")
    found = list(dict.fromkeys(one.replace("\0", ",").strip() for one in parts))
    return check_choices([one for one in found if one])


def check_choices(choices: Sequence[str]) -> list[str]:
    """Return ``choices``. Raises UsageError where there are fewer than two different ones."""
    found = list(choices)
    if len(set(found)) < 2 or len(set(found)) < len(found):
        raise UsageError(
            f"Choices are at least two, each another one, not: {', '.join(found) or 'none'}.",
            "Write them as --choices 'Paris,Rome'; a comma inside one is written \\,",
        )
    return found


def find_choices(store: GraphStore, choices: Sequence[str]) -> list[AnswerChoice]:
    """Return what each choice means in the KG: the entity of that id, else all of that name.

    Raises UsageError as :func:`check_choices` does, GraphError where the store fails.
    """
    texts = check_choices(choices)
    keys: list[list[int]] = [[key] if key >= 0 else [] for key in store.keys_of(texts).tolist()]
    forms = [normalise(text) for text in texts]
    asked = [number for number, own in enumerate(keys) if not own and forms[number]]
    rows, named = store.find_names([forms[number] for number in asked])
    for row, key in zip(rows.tolist(), named.tolist(), strict=True):
        keys[asked[row]].append(key)
    found = []
    for text, own in zip(texts, keys, strict=True):
        ids = store.entities(np.array(own, np.int64)).ids if own else []
        found.append(AnswerChoice(text, tuple(ids), tuple(own)))
    return found


def paths_between(
    store: GraphStore,
    topics: IntArray,
    ends: IntArray,
    rules: WalkRules,
    most: int = MOST_PATHS,
) -> tuple[PathTable, bool]:
    """Return every path under ``rules`` from ``topics`` that ends in one of ``ends``.

    They are those paths of :func:`kgqa.paths.walk.walk` whose last entity is among ``ends``, found
    without walking the others. Where there are more than ``most``, longer ones are left out whole
    hops at a time, the shortest first in the table; then the second value is True.
    """
    left = _hops_to(store, ends, rules)
    topic = taken_at = np.unique(topics)
    taken = np.full((len(topic), rules.hops, 4), -1, np.int64)
    found: list[PathTable] = []
    number = 0
    cut = False
    for depth in range(rules.hops):
        if not len(topic):
            break
        unique, at = np.unique(taken_at, return_inverse=True)
        hop, kind, starts = _hops_within(store, unique, rules, left[rules.hops - depth - 1])
        counts = np.diff(starts)[at]
        if int(counts.sum()) + number > 3 * most:  # before the join is made
            cut = True
            break
        pick = ranges(starts[:-1][at], counts)
        topic, taken = np.repeat(topic, counts), np.repeat(taken, counts, axis=0)
        good = admissible(topic, taken, depth, hop[pick])
        topic, taken, kind = topic[good], taken[good], kind[pick][good]
        taken[:, depth] = hop[pick][good]
        here = np.isin(taken[:, depth, TAIL], ends)
        if int(here.sum()) + number > most:
            cut = True
            break
        number += int(here.sum())
        length = np.full(int(here.sum()), depth + 1, np.int64)
        found.append(PathTable(topic[here], length, taken[here]))
        onward = kind != Kind.VALUE
        topic, taken = topic[onward], taken[onward]
        taken_at = taken[:, depth, TAIL]
    if not found:
        return empty_paths(rules.hops), cut
    return (
        joined_tables(found),
        cut,
    )


def choice_paths(
    store: GraphStore,
    topics: IntArray,
    choices: Sequence[AnswerChoice],
    rules: WalkRules,
    most: int = MOST_PATHS,
) -> tuple[PathTable, list[str]]:
    """Return every path from ``topics`` to a choice, and notes.

    A note says which choices no path leads to, and whether paths were left out. Raises
    EmptyLanguageError where no choice can be reached.
    """
    ends = np.unique(np.array([key for one in choices for key in one.keys], np.int64))
    table, cut = paths_between(store, topics, ends, rules, most)
    reached = set(table.ends().tolist())
    missing = [one.text for one in choices if not reached.intersection(one.keys)]
    unknown = [one.text for one in choices if not one.keys]
    if not len(table):
        said = f" The graph does not know: {', '.join(unknown)}." if unknown else ""
        raise EmptyLanguageError(
            f"No path of at most {rules.hops} hops leads from the topic entities to one of the "
            f"choices.{said}",
            "Allow longer paths (--hops), or name another entity (--entity).",
        )
    notes = []
    if missing:
        notes.append(f"No path leads to: {', '.join(missing)}.")
    if cut:
        notes.append(
            f"There are more than {most:,} paths to the choices; only the shortest ones are used."
        )
    return ordered(table), notes


def rank_choices(
    choices: Sequence[AnswerChoice],
    paths: Sequence[ScoredPath],
    weights: Sequence[float] | None = None,
) -> list[RankedAnswer]:
    """Return every choice with its share of the probability of ``paths``, the best first.

    ``weights``: the logarithm of what each path counts, its score where there are none. A path
    whose text ends in several entities gives each an equal part. Scores sum to 1 where any path
    ends in a choice. A choice without a path has score 0 and is not grounded; equal ones stay in
    the order they were given.
    """
    of = {one: number for number, choice in enumerate(choices) for one in choice.ids}
    logs = [path.score for path in paths] if weights is None else weights
    top = max(logs, default=0.0)
    weight = [0.0] * len(choices)
    shown: dict[int, tuple[str, str]] = {}
    for path, log in zip(paths, logs, strict=True):
        share = math.exp(log - top) / len(path.groundings)
        for grounding in path.groundings:
            number = of.get(grounding.tail.id)
            if number is not None:
                weight[number] += share
                shown.setdefault(number, (grounding.tail.id, grounding.tail.name))
    total = math.fsum(weight)
    ranked = []
    for number in sorted(range(len(choices)), key=lambda one: (one not in shown, -weight[one])):
        entity, name = shown.get(number, (None, choices[number].text))
        score = weight[number] / total if total else 0.0
        ranked.append(RankedAnswer(entity, name, score, number in shown))
    return ranked


def choice_prompt(question: str, choices: Sequence[str], paths: Sequence[ScoredPath]) -> str:
    """Return what a general LLM is asked: the paths in the order of their scores, the choices."""
    listed = "\n".join(path.text for path in paths) or "none"
    values = {
        "{paths}": listed,
        "{question}": question,
        "{choices}": "\n".join(f"- {one}" for one in choices),
    }
    head, *rest = _TEMPLATE.split("{")
    # in one pass: a name may itself contain "{question}"
    return head + "".join(
        values["{" + name + "}"] + tail for name, tail in (one.split("}", 1) for one in rest)
    )


def read_choice(
    text: str, choices: Sequence[AnswerChoice], paths: Sequence[ScoredPath]
) -> list[RankedAnswer]:
    """Return all choices: the one that a general LLM wrote, then the others as the paths rank them.

    The written one gets half of all probability beside its own half share, so that scores still sum
    to at most 1. Where the text names none of the choices, or several, the ranking of the paths
    stands.
    """
    ranked = rank_choices(choices, paths)
    line = normalise(next((one for one in text.splitlines() if one.strip()), ""))
    by_form = {normalise(one.text): one for one in choices}
    chosen = by_form.get(line)
    if chosen is None:
        said = [one for form, one in by_form.items() if form and f" {form} " in f" {line} "]
        chosen = said[0] if len(said) == 1 else None
    if chosen is None:
        return ranked
    answers = []
    for one in ranked:
        mine = one.id in chosen.ids if one.id is not None else one.name == chosen.text
        score = one.score / 2 + (0.5 if mine else 0.0)
        answers.append(RankedAnswer(one.id, one.name, score, one.grounded))
    return sorted(answers, key=lambda one: -one.score)


def _hops_to(store: GraphStore, ends: IntArray, rules: WalkRules) -> list[IntArray]:
    """Return for each n below ``rules.hops`` the keys from which n hops or fewer lead to an end."""
    back = WalkRules(rules.hops, AGAINST[rules.direction], rules.mediators)
    sets = [np.unique(ends)]
    frontier = sets[0]
    for _ in range(rules.hops - 1):
        reached = [hops.hop[:, TAIL] for hops in hops_in_turn(store, frontier, back)]
        new = np.unique(np.concatenate(reached)) if reached else frontier[:0]
        frontier = np.setdiff1d(new, sets[-1], assume_unique=True)
        sets.append(np.union1d(sets[-1], frontier))
    return sets


def _hops_within(
    store: GraphStore, unique: IntArray, rules: WalkRules, wanted: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the hops out of ``unique`` into ``wanted``, their tails' kinds, and their offsets."""
    hop, kind, row = [np.empty((0, 4), np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    before = 0
    for hops in hops_in_turn(store, unique, rules):
        mine = np.isin(hops.hop[:, TAIL], wanted)
        hop.append(hops.hop[mine])
        kind.append(hops.kind[mine].astype(np.int64))
        row.append(hops.row[mine] + before)
        before += FRONTIER
    starts = np.searchsorted(np.concatenate(row), np.arange(len(unique) + 1)).astype(np.int64)
    return np.concatenate(hop), np.concatenate(kind), starts
