"""Training questions from a KG alone: every relation is asked about, and relation paths up to L.

One hop: every relation that leaves some topic entity, a few entities each. More hops: random walks,
a few for each relation path. Questions are put together from the words of the relations' names, or
from phrases where a file has them (``templates``); a general LLM may put them into other words
(``phrasing``). How many entities of a large KG are looked at is an option, and the result says how
many relations were reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.model import Kind, keys_array
from kgqa.paths.sample import Sample, sample_walk
from kgqa.paths.walk import FIRST, SECOND, TAIL, WalkRules, hops_out_of
from kgqa.training.data import Example
from kgqa.training.templates import LONGEST, Reservoir, question_about
from kgqa.trie.precompute import all_topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.progress import Progress
    from kgqa.training.templates import Phrases

_AT_ONCE = 256  # topics walked in one go
_WALKS = 8  # random walks of a topic
_HUB = 5_000  # edges of a topic that is left out: its tails are nothing a question is asked for


@dataclass(frozen=True, slots=True)
class SelfMadeOptions:
    """How many examples, and how they are spread.

    ``per_relation``: of one hop for each relation; ``per_path``: of more hops for each relation
    path; ``most``: in all, each number of hops with an equal share; ``topics``: entities that are
    looked at.
    """

    per_relation: int = 12
    per_path: int = 3
    most: int = 8_000
    topics: int = 20_000
    seed: int = 0


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
    options: SelfMadeOptions,
    progress: Progress,
) -> SelfMade:
    """Return examples made from a KG, in random order; the same for the same KG and options."""
    random = np.random.default_rng(options.seed)
    keys = np.sort(random.permutation(all_topics(store))[: options.topics])
    names = store.relations().names
    reservoir = Reservoir(random)
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
                most = options.per_relation if len(labels) == 1 else options.per_path
                reservoir.offer(labels, stations, most)
                relations[labels] = {step // 2 for pair in steps for step in pair if step >= 0}
            task.advance(len(part))
    share = max(1, options.most // rules.hops)
    examples: list[Example] = []
    for length in range(1, rules.hops + 1):
        chosen = _spread(reservoir.kept, length, share, random)
        made = (_example(store, *one, phrases, random) for one in chosen)
        examples += [example for example in made if example is not None]
    mixed = [examples[at] for at in random.permutation(len(examples)).tolist()]
    asked = set().union(*(relations[example.relations] for example in mixed))
    return SelfMade(mixed, len(asked), len(names))


def _one_hop(
    store: GraphStore, topics: IntArray, rules: WalkRules, random: np.random.Generator
) -> list[tuple[list[tuple[int, int]], list[int]]]:
    """Return one hop of every relation that leaves each topic, to one of its tails."""
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
    """Yield random walks of more than one hop."""
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


def _example(
    store: GraphStore,
    labels: tuple[str, ...],
    stations: list[int],
    phrases: Mapping[str, Phrases],
    random: np.random.Generator,
) -> Example | None:
    """Return the example of one path, None if a name is one that people would not write."""
    entities = store.entities(keys_array(stations))
    mediators = [kind == Kind.MEDIATOR for kind in np.asarray(entities.kinds).tolist()]
    names = [name or id_ for name, id_ in zip(entities.names, entities.ids, strict=True)]
    nameless = any(
        name is None and not less for name, less in zip(entities.names, mediators, strict=True)
    )
    if nameless or any(len(name) > LONGEST for name in names):
        return None
    question = question_about(names[0], labels, phrases, random)
    hops = tuple(zip(labels, names[1:], strict=True))
    topic = entities.ids[0]
    return Example(f"self:{topic}", question, (names[0],), names[0], hops, (topic,))
