"""Training questions from a KG alone: about every relation, or about those with phrases.

:func:`self_made`: one hop of every relation that leaves some topic entity, a few entities each, and
random walks for relation paths up to L. :func:`templated_examples`: up to two hops, mostly of
relations that a phrase file has words for. Of a large KG a bounded number of entities is read.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.model import Kind, keys_array
from kgqa.paths.sample import Sample, sample_walk
from kgqa.paths.walk import FIRST, SECOND, TAIL, WalkRules, hops_out_of, walk
from kgqa.training.data import Example
from kgqa.training.phrasing import question_about
from kgqa.trie.precompute import all_topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import PathTable
    from kgqa.progress import Progress
    from kgqa.training.options import QuestionSource
    from kgqa.training.phrasing import Phrases

MOST = 8_000  # examples made
_AT_ONCE = 256  # topics walked in one go
_LONGEST = 60  # characters of a name that is used
# self_made
_WALKS = 8  # random walks of a topic
_HUB = 5_000  # edges of a topic that is left out: its tails are nothing a question is asked for
# templated_examples
_TOPICS = 12_000
_CAP = 3_000  # paths of a topic that is still used: hubs would drown the others
_SEEN = 5  # paths that take the same relations: fewer are mostly slips of the KG
_FEW = 4  # tails up to which "the … of" means something


class _Reservoir:
    """Keeps a few of the paths (their keys) of each relation path, each as likely as the others."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self.seen: dict[tuple[str, ...], int] = defaultdict(int)
        self.kept: dict[tuple[str, ...], list[list[int]]] = defaultdict(list)

    def offer(self, labels: tuple[str, ...], stations: list[int], most: int) -> None:
        kept = self.kept[labels]
        self.seen[labels] += 1
        if len(kept) < most:
            kept.append(stations)
        elif (place := int(self._random.integers(self.seen[labels]))) < most:
            kept[place] = stations


@dataclass(frozen=True, slots=True)
class SelfMade:
    """Examples made from a KG; ``relations`` of its ``of_relations`` are asked about."""

    examples: list[Example]
    relations: int
    of_relations: int


def self_made(
    store: GraphStore,
    rules: WalkRules,
    form: PathFormat,
    phrases: Mapping[str, Phrases],
    options: QuestionSource,
    progress: Progress,
    most: int = MOST,
) -> SelfMade:
    """Return examples made from a KG, in random order; the same for the same KG and options.

    ``most``: examples in all, each number of hops with an equal share.
    """
    random = np.random.default_rng(options.seed)
    keys = np.sort(random.permutation(all_topics(store))[: options.entities])
    names = store.relations().names
    reservoir = _Reservoir(random)
    relations: dict[tuple[str, ...], set[int]] = {}  # of each relation path
    with progress.task("questions from the KG", len(keys), "entities") as task:
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            quiet = part[store.degrees(part) <= _HUB]
            walks = _one_hop(store, quiet, rules, random)
            if rules.hops > 1:
                walks = [*walks, *_more_hops(store, quiet, rules, options.seed)]
            for steps, stations in walks:
                labels = tuple(form.relation(first, second, names) for first, second in steps)
                wanted = options.per_relation if len(labels) == 1 else options.per_pair
                reservoir.offer(labels, stations, wanted)
                relations[labels] = {step // 2 for pair in steps for step in pair if step >= 0}
            task.advance(len(part))
    share = max(1, most // rules.hops)
    examples: list[Example] = []
    for length in range(1, rules.hops + 1):
        chosen = _spread(reservoir.kept, length, share, random)
        made = (_example(store, "self", *one, phrases, random) for one in chosen)
        examples += [example for example in made if example is not None]
    mixed = [examples[at] for at in random.permutation(len(examples)).tolist()]
    asked = set().union(*(relations[example.relations] for example in mixed))
    return SelfMade(mixed, len(asked), len(names))


def _one_hop(
    store: GraphStore, topics: IntArray, rules: WalkRules, random: np.random.Generator
) -> list[tuple[list[tuple[int, int]], list[int]]]:
    if not len(topics):
        return []
    hops = hops_out_of(store, topics, rules)
    drawn = random.permutation(len(hops.row))
    kinds = hops.kind[drawn]
    drawn = drawn[kinds != Kind.MEDIATOR]  # if mediators are kept, nobody asks for one
    labelled = np.stack([hops.row[drawn], hops.hop[drawn, FIRST], hops.hop[drawn, SECOND]], axis=1)
    _, first = np.unique(labelled, axis=0, return_index=True)
    found = []
    for at in drawn[np.sort(first)].tolist():
        hop = hops.hop[at].tolist()
        stations = [int(topics[hops.row[at]]), hop[TAIL]]
        found.append(([(hop[FIRST], hop[SECOND])], stations))
    return found


def _more_hops(
    store: GraphStore, topics: IntArray, rules: WalkRules, seed: int
) -> Iterator[tuple[list[tuple[int, int]], list[int]]]:
    table = sample_walk(store, topics, rules, Sample(_WALKS * rules.hops, "random", seed))
    ends = store.entities(table.ends()).kinds
    for row in np.flatnonzero((table.length > 1) & (np.asarray(ends) != Kind.MEDIATOR)).tolist():
        hops = table.hops[row, : table.length[row]].tolist()
        stations = [int(table.topic[row]), *(hop[TAIL] for hop in hops)]
        yield [(hop[FIRST], hop[SECOND]) for hop in hops], stations


def _spread(
    kept: Mapping[tuple[str, ...], list[list[int]]],
    length: int,
    most: int,
    random: np.random.Generator,
) -> list[tuple[tuple[str, ...], list[int]]]:
    """Return up to ``most`` paths of ``length`` hops: one of every relation path, then another."""
    found = sorted(labels for labels in kept if len(labels) == length)
    order = [found[at] for at in random.permutation(len(found)).tolist()]
    deepest = max((len(kept[labels]) for labels in order), default=0)
    turns = [
        (labels, kept[labels][turn])
        for turn in range(deepest)
        for labels in order
        if turn < len(kept[labels])
    ]
    return turns[:most]


def templated_examples(
    store: GraphStore,
    rules: WalkRules,
    form: PathFormat,
    phrases: Mapping[str, Phrases],
    options: QuestionSource,
    progress: Progress,
    most: int = MOST,
) -> list[Example]:
    """Return up to ``most`` examples, spread over relations and pairs of relations.

    A relation without phrases gets one, and only relations with phrases make pairs.
    """
    random = np.random.default_rng(options.seed)
    keys = np.sort(random.permutation(all_topics(store))[:_TOPICS])
    names = store.relations().names
    short = WalkRules(min(rules.hops, 2), rules.direction, rules.mediators)
    reservoir = _Reservoir(random)
    with progress.task("templated questions", len(keys), "entities") as task:
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            table, _ = walk(store, part, short, _CAP)
            few = _few_tails(table)
            for row in random.permutation(len(table)).tolist():
                hops = table.hops[row, : table.length[row]].tolist()
                labels = tuple(form.relation(hop[FIRST], hop[SECOND], names) for hop in hops)
                if len(labels) > 1 and not (few[row] and all(one in phrases for one in labels)):
                    continue
                wanted = options.per_relation if labels[0] in phrases else 1
                stations = [int(table.topic[row]), *(hop[TAIL] for hop in hops)]
                reservoir.offer(labels, stations, wanted if len(labels) == 1 else options.per_pair)
            task.advance(len(part))
    made = [
        example
        for labels, paths in sorted(reservoir.kept.items())
        if reservoir.seen[labels] >= _SEEN or (labels[0] in phrases and len(labels) == 1)
        for stations in paths
        if (example := _example(store, "template", labels, stations, phrases, random)) is not None
    ]
    order = random.permutation(len(made))[:most]
    return [made[at] for at in np.sort(order).tolist()]


def _few_tails(table: PathTable) -> list[bool]:
    """Return for each path whether its first relation has only a few tails at its topic."""
    first = np.concatenate([table.topic[:, None], table.hops[:, 0, (FIRST, SECOND)]], axis=1)
    unique, number = np.unique(first, axis=0, return_inverse=True)
    number = number.reshape(-1)
    counts = np.bincount(number[table.length == 1], minlength=len(unique))
    few: list[bool] = (counts[number] <= _FEW).tolist()
    return few


def _example(
    store: GraphStore,
    source: str,
    labels: tuple[str, ...],
    stations: list[int],
    phrases: Mapping[str, Phrases],
    random: np.random.Generator,
) -> Example | None:
    """Return the example of one path, None if a name is one that people would not write."""
    entities = store.entities(keys_array(stations))
    names = [name or id_ for name, id_ in zip(entities.names, entities.ids, strict=True)]
    nameless = source == "self" and any(
        name is None and kind != Kind.MEDIATOR
        for name, kind in zip(entities.names, np.asarray(entities.kinds).tolist(), strict=True)
    )
    if nameless or any(len(name) > _LONGEST for name in names):
        return None
    question = question_about(names[0], labels, phrases, random)
    hops = tuple(zip(labels, names[1:], strict=True))
    topic = entities.ids[0]
    return Example(f"{source}:{topic}", question, (names[0],), names[0], hops, (topic,))
