"""Training questions for a KG that has none: relations put into words, and words put together.

A phrase file says how people put a relation into words. A path of one hop becomes one of its
relation's questions; a path of two hops asks the second relation's question about the first's noun
phrase ("Where was" + "the wife of Abraham Lincoln" + "born?"). A relation without phrases is asked
by the words of its name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.errors import DataError
from kgqa.graph.model import keys_array
from kgqa.paths.walk import FIRST, SECOND, TAIL, WalkRules, walk
from kgqa.training.data import Example
from kgqa.training.questions import read_lines
from kgqa.trie.lexicon import names_of
from kgqa.trie.precompute import all_topics

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.progress import Progress

_AT_ONCE = 256  # topics walked in one go
_CAP = 3_000  # paths of a topic that is still used: hubs would drown the others
_SEEN = 5  # paths that take the same relations: fewer are mostly slips of the KG
_FEW = 4  # tails up to which "the … of" means something
LONGEST = 60  # characters of a name that is used
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Phrases:
    """How a relation is put into words; ``{x}`` stands for the entity."""

    nouns: tuple[str, ...]
    questions: tuple[str, ...]


def read_phrases(path: Path) -> dict[str, Phrases]:
    """Return the phrases of each relation in a tab-separated file; ``#`` starts a comment.

    Raises DataError if it cannot be read, or with the line that is not of that form.
    """
    phrases = {}
    for number, line in enumerate(read_lines(path, "file of phrases"), 1):
        line = line.removesuffix("\r")
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 3 or not all("{x}" in part for f in fields[1:] for part in f.split("|")):
            raise DataError(
                f"Line {number} of {path.name} is not a relation's phrases.",
                "It has three columns: relation, noun phrases, questions; each phrase holds {x}, "
                "and | stands between two.",
            )
        phrases[fields[0]] = Phrases(tuple(fields[1].split("|")), tuple(fields[2].split("|")))
    return phrases


def words_of_relation(label: str) -> Phrases:
    """Return phrases made of the last words of a relation's name.

    A relation walked against its direction (``^``) is asked for what has ``{x}`` there.

    >>> words_of_relation("tv.tv_program.program_creator").nouns[0]
    'the program creator of {x}'
    >>> words_of_relation("^directed_by").nouns[0]
    'what has {x} as directed by'
    """
    halves = label.split("..")
    half = halves[-1]
    if half.startswith("^") and len(halves) > 1 and not halves[0].startswith("^"):
        half = halves[0]  # along the first edge and against the second: the first half says more
    words = _words(half.removeprefix("^")) or label
    if half.startswith("^"):
        return Phrases(
            (f"what has {{x}} as {words}",),
            (f"What has {{x}} as {words}?", f"{{x}} is the {words} of what?"),
        )
    return Phrases(
        (f"the {words} of {{x}}",),
        (f"What is the {words} of {{x}}?", f"Which {words} does {{x}} have?", f"{{x}} {words}"),
    )


def _words(relation: str) -> str:
    """Return the last part of a relation's name as words.

    >>> _words("/r/AtLocation")
    'at location'
    """
    last = relation.rsplit(".", 1)[-1].rsplit("/", 1)[-1].rsplit("#", 1)[-1]
    last = _CAMEL.sub(" ", last)
    return " ".join(re.split(r"[_\s-]+", last)).strip().lower()


class Reservoir:
    """Keeps a few of the paths of each relation path, each as likely as the others.

    ``seen`` counts the paths that were offered; ``kept`` has the keys along each path.
    """

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self.seen: dict[tuple[str, ...], int] = defaultdict(int)
        self.kept: dict[tuple[str, ...], list[list[int]]] = defaultdict(list)

    def offer(self, labels: tuple[str, ...], stations: list[int], most: int) -> None:
        """Take the path of ``labels`` through the keys ``stations``, perhaps."""
        kept = self.kept[labels]
        self.seen[labels] += 1
        if len(kept) < most:
            kept.append(stations)
        elif (place := int(self._random.integers(self.seen[labels]))) < most:
            kept[place] = stations


def templated_examples(
    store: GraphStore,
    rules: WalkRules,
    form: PathFormat,
    phrases: dict[str, Phrases],
    *,
    per_relation: int = 12,
    per_pair: int = 3,
    most: int = 8_000,
    topics: int = 12_000,
    seed: int = 0,
    progress: Progress,
) -> list[Example]:
    """Return up to ``most`` examples, spread over relations and pairs of relations.

    ``per_relation`` examples of one hop for each relation with phrases, one for a relation without;
    ``per_pair`` of two hops for each pair of relations with phrases.
    """
    random = np.random.default_rng(seed)
    keys = all_topics(store)
    keys = np.sort(random.permutation(keys)[:topics])
    names = store.relations().names
    short = WalkRules(min(rules.hops, 2), rules.direction, rules.mediators)
    reservoir = Reservoir(random)
    with progress.task("templated questions", len(keys), "entities") as task:
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            table, _ = walk(store, part, short, _CAP)
            few = _few_tails(table.topic, table.hops, table.length)
            for row in random.permutation(len(table)).tolist():
                hops = table.hops[row, : table.length[row]].tolist()
                labels = tuple(form.relation(hop[FIRST], hop[SECOND], names) for hop in hops)
                if len(labels) > 1 and not (few[row] and all(one in phrases for one in labels)):
                    continue
                stations = [int(table.topic[row]), *(hop[TAIL] for hop in hops)]
                wanted = _share(labels, phrases, per_relation, per_pair)
                reservoir.offer(labels, stations, wanted)
            task.advance(len(part))
    made = [
        example
        for labels, paths in sorted(reservoir.kept.items())
        if reservoir.seen[labels] >= _SEEN or (labels[0] in phrases and len(labels) == 1)
        for stations in paths
        if (example := _example(store, labels, stations, phrases, random)) is not None
    ]
    order = random.permutation(len(made))[:most]
    return [made[at] for at in np.sort(order).tolist()]


def _share(
    labels: tuple[str, ...], phrases: dict[str, Phrases], per_relation: int, per_pair: int
) -> int:
    if len(labels) > 1:
        return per_pair
    return per_relation if labels[0] in phrases else 1


def _few_tails(topic: IntArray, hops: IntArray, length: IntArray) -> list[bool]:
    """Return for each path whether its first relation has only a few tails at its topic."""
    one = length == 1
    first = np.concatenate([topic[:, None], hops[:, 0, (FIRST, SECOND)]], axis=1)
    unique, number = np.unique(first, axis=0, return_inverse=True)
    counts = np.bincount(number.reshape(-1)[one], minlength=len(unique))
    few: list[bool] = (counts[number.reshape(-1)] <= _FEW).tolist()
    return few


def _example(
    store: GraphStore,
    labels: tuple[str, ...],
    stations: list[int],
    phrases: dict[str, Phrases],
    random: np.random.Generator,
) -> Example | None:
    """Return the example of one path, None if a name is one that people would not write."""
    names = names_of(store, keys_array(stations))
    if any(len(name) > LONGEST for name in names):
        return None

    question = question_about(names[0], labels, phrases, random)
    hops = tuple(zip(labels, names[1:], strict=True))
    topic = store.entities(keys_array(stations[:1])).ids[0]
    return Example(f"template:{topic}", question, (names[0],), names[0], hops, (topic,))


def question_about(
    name: str,
    labels: tuple[str, ...],
    phrases: Mapping[str, Phrases],
    random: np.random.Generator,
) -> str:
    """Return a question about the entity ``name`` that asks for the end of a relation path."""

    def pick(choices: tuple[str, ...]) -> str:
        return choices[int(random.integers(len(choices)))]

    asked = name
    for label in labels[:-1]:
        asked = pick((phrases.get(label) or words_of_relation(label)).nouns).replace("{x}", asked)
    last = phrases.get(labels[-1]) or words_of_relation(labels[-1])
    question = pick(last.questions).replace("{x}", asked)
    return question.lower() if random.random() < 0.3 else question
