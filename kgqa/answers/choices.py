"""Multiple choice: linking of choices to entities, the paths to them, and their ranking.

The paths are found from both ends, so that no walk goes where no choice can be reached any more: a
hub between question and choice costs its edges, not its paths.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import RankedAnswer
from kgqa.answers.expand import AGAINST, hops_in_turn, next_hops
from kgqa.answers.naming import is_name_of
from kgqa.display import said_name
from kgqa.errors import EmptyLanguageError, UsageError
from kgqa.graph.model import Kind
from kgqa.graph.names import name_form, normalise
from kgqa.paths.walk import TAIL, PathTable, WalkRules, empty_paths, joined_tables, ordered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kgqa.answers.answer import ScoredPath
    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import Hops

_LABEL = re.compile(r"^[(\[]?[A-Za-z](?:[)\]]\s*|[.:]\s+)")  # of a choice, as in "B) Paris"
MOST_PATHS = 200_000  # of all topic entities to all choices: what one constraint holds in memory


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """A choice as given, with the ids of its entities (none if it is not in the KG).

    ``keys`` are the store's keys of ``ids``.
    """

    text: str
    ids: tuple[str, ...]
    keys: tuple[int, ...]


def check_choices(choices: Sequence[str]) -> list[str]:
    """Return ``choices`` as a list.

    Raises UsageError unless they are two or more, all different.
    """
    listed = list(choices)
    if len(set(listed)) < 2 or len(set(listed)) < len(listed):
        raise UsageError(
            f"Choices are at least two, each another one, not: {', '.join(listed) or 'none'}.",
            "Give different ones, such as Paris and Rome.",
        )
    return listed


def find_choices(store: GraphStore, choices: Sequence[str]) -> list[AnswerChoice]:
    """Return each choice with its entities: the one with that id, otherwise all with that name.

    Raises UsageError as :func:`check_choices` does, GraphError if the store fails.
    """
    texts = check_choices(choices)
    keys: list[list[int]] = [[key] if key >= 0 else [] for key in store.keys_of(texts).tolist()]
    forms = [name_form(text) for text in texts]
    asked = [number for number, own in enumerate(keys) if not own and forms[number]]
    rows, named = store.find_names([forms[number] for number in asked])
    for row, key in zip(rows.tolist(), named.tolist(), strict=True):
        keys[asked[row]].append(key)
    answer_choices = []
    for text, own in zip(texts, keys, strict=True):
        ids = store.entities(np.array(own, np.int64)).ids if own else []
        answer_choices.append(AnswerChoice(text, tuple(ids), tuple(own)))
    return answer_choices


def paths_between(
    store: GraphStore,
    topics: IntArray,
    ends: IntArray,
    rules: WalkRules,
    most: int = MOST_PATHS,
) -> tuple[PathTable, bool]:
    """Return every path under ``rules`` from ``topics`` to one of ``ends``, and False.

    If there are more than ``most``, only the shortest are returned, by whole numbers of hops, and
    True.
    """
    within = _hops_to(store, ends, rules)
    topic = np.unique(topics)
    taken = np.full((len(topic), rules.hops, 4), -1, np.int64)
    tables: list[PathTable] = []
    number = 0

    def leads_on(left: IntArray, hops: Hops) -> BoolArray:
        """Return which ``hops`` lead to one of the keys ``left``, near enough to an end."""
        return np.isin(hops.hop[:, TAIL], left)

    def joined() -> PathTable:
        """Return all paths found so far as one table."""
        return joined_tables(tables) if tables else empty_paths(rules.hops)

    for depth in range(rules.hops):
        if not len(topic):
            break
        onto = partial(leads_on, within[rules.hops - depth - 1])
        longer = next_hops(store, topic, taken, depth, rules, onto, 3 * most - number)
        if longer is None:
            return joined(), True
        topic, taken, kind = longer
        here = np.isin(taken[:, depth, TAIL], ends)
        ended = int(here.sum())
        if ended + number > most:
            return joined(), True
        number += ended
        tables.append(PathTable(topic[here], np.full(ended, depth + 1, np.int64), taken[here]))
        onward = kind != Kind.VALUE
        topic, taken = topic[onward], taken[onward]
    return joined(), False


def choice_paths(
    store: GraphStore,
    topics: IntArray,
    choices: Sequence[AnswerChoice],
    rules: WalkRules,
) -> tuple[PathTable, list[str]]:
    """Return every path from ``topics`` to a choice, sorted, and notes.

    Notes state which choices no path leads to, and whether paths were left out. Raises
    EmptyLanguageError if no choice can be reached.
    """
    ends = np.unique(np.array([key for choice in choices for key in choice.keys], np.int64))
    table, cut = paths_between(store, topics, ends, rules)
    reached = set(table.ends().tolist())
    missing = [choice.text for choice in choices if not reached.intersection(choice.keys)]
    unknown = [choice.text for choice in choices if not choice.keys]
    if not len(table):
        said = f" The graph does not know: {', '.join(map(said_name, unknown))}." if unknown else ""
        raise EmptyLanguageError(
            f"No path of at most {rules.hops} hops leads from the topic entities to one of the "
            f"choices.{said}",
            "Allow longer paths with `hops`, or name another `entity`.",
        )
    notes = []
    if missing:
        notes.append(f"No path leads to: {', '.join(map(said_name, missing))}.")
    if cut:
        notes.append(
            f"There are more than {MOST_PATHS:,} paths to the choices; only the shortest ones are "
            "used."
        )
    return ordered(table, store), notes


def rank_choices(
    choices: Sequence[AnswerChoice],
    paths: Sequence[ScoredPath],
    weights: Sequence[float] | None = None,
) -> list[RankedAnswer]:
    """Return every choice scored by the probability of the ``paths`` that end in it, best first.

    ``weights``: the log-weight of each path, its score by default. A path whose text ends in
    several entities gives each an equal part. Scores sum to 1 if any path ends in a choice. A
    choice without a path has score 0 and is not grounded; ties keep their order.
    """
    of = {id_: number for number, choice in enumerate(choices) for id_ in choice.ids}
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
    return _ranked(choices, weight, shown)


def _ranked(
    choices: Sequence[AnswerChoice],
    weight: Sequence[float],
    shown: Mapping[int, tuple[str, str]],
) -> list[RankedAnswer]:
    """Return choices as answers, the heaviest first, and those that are not ``shown`` last.

    ``weight``: of each; ``shown``: by number the id and the name of the entity that a path ends in.
    """
    total = math.fsum(weight) or 1.0
    ranked = []
    for number in sorted(range(len(choices)), key=lambda at: (at not in shown, -weight[at])):
        there = number in shown
        entity, name = shown.get(number, (None, choices[number].text))
        ranked.append(RankedAnswer(entity, name, weight[number] / total * there, there))
    return ranked


def chosen_first(ranked: Sequence[RankedAnswer], choice: AnswerChoice) -> list[RankedAnswer]:
    """Return ``ranked`` choices with ``choice``, which was chosen, moved to the front.

    It gets half of all probability plus half of its own: scores still sum to at most 1.
    """

    def mine(given: RankedAnswer) -> bool:
        """Return whether a ranked answer is the chosen one."""
        return given.id in choice.ids if given.id is not None else given.name == choice.text

    scored = [replace(answer, score=(answer.score + mine(answer)) / 2) for answer in ranked]
    return sorted(scored, key=lambda answer: -answer.score)


def named_choice(text: str, choices: Sequence[AnswerChoice]) -> AnswerChoice | None:
    """Return the one choice that ``text`` names, with or without a letter before it.

    None if it names none, or several equally well.
    """
    for written in (text, _LABEL.sub("", text)):
        named = [choice for choice in choices if is_name_of(written, choice.text)]
        exact = [choice for choice in named if normalise(choice.text) == normalise(written)]
        if named:
            return (exact or named)[0] if len(exact or named) == 1 else None
    return None


def rank_by_score(
    choices: Sequence[AnswerChoice], scores: Mapping[int, float], names: Mapping[str, str]
) -> list[RankedAnswer]:
    """Return every choice scored by its share of its entities' ``scores`` (by key), best first.

    ``names``: by id of the entities that a path ends in; a choice without one has score 0 and is
    not grounded.
    """
    weight = [math.fsum(scores.get(key, 0.0) for key in choice.keys) for choice in choices]
    shown = {}
    for number, choice in enumerate(choices):
        pairs = zip(choice.keys, choice.ids, strict=True)
        there = [(scores[key], id_) for key, id_ in pairs if key in scores and id_ in names]
        if there:
            id_ = max(there)[1]
            shown[number] = id_, names[id_]
    return _ranked(choices, weight, shown)


def _hops_to(store: GraphStore, ends: IntArray, rules: WalkRules) -> list[IntArray]:
    """Return for each n below ``rules.hops`` the keys with at most n hops to one of ``ends``."""
    back = WalkRules(rules.hops, AGAINST[rules.direction], rules.mediators)
    sets = [np.unique(ends)]
    frontier = sets[0]
    for _ in range(rules.hops - 1):
        reached = [hops.hop[:, TAIL] for hops in hops_in_turn(store, frontier, back)]
        new = np.unique(np.concatenate(reached)) if reached else frontier[:0]
        frontier = np.setdiff1d(new, sets[-1], assume_unique=True)
        sets.append(np.union1d(sets[-1], frontier))
    return sets
