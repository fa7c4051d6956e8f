"""The words of questions and relation paths for the path ranker, and the scores from them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.expand import LACKING
from kgqa.graph.model import Kind, distinct, keys_array
from kgqa.graph.quantities import read_value
from kgqa.graph.schema import PropertyGraph
from kgqa.graph.store import schema_version
from kgqa.linking.masking import without_name
from kgqa.linking.neighbourhood_features import MOST_CLASSES
from kgqa.paths.phrases import phrases_of
from kgqa.paths.schema import Schema
from kgqa.paths.walk import MEDIATOR, TAIL
from kgqa.paths.words import TOPIC, holds_both_ways, relation_path_text, relation_phrase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.answers.answer import RelationShare, TopicEntity
    from kgqa.graph.store import GraphStore
    from kgqa.linking.linker import Candidate
    from kgqa.linking.resolve import Resolution
    from kgqa.models.kept_vectors import KeptVectors
    from kgqa.models.path_ranker import PathRanker
    from kgqa.paths.relation_paths import RelationPaths
    from kgqa.paths.schema import Hop
    from kgqa.paths.walk import WalkRules

_MOST_KINDS = 500  # most relations whose last words are read as types
_MOST_TEXTS = 50_000  # most texts of relation paths in memory
_END = re.compile(
    r"(?:^|\b(?:held|valid|term|date) )(?:to|until|till|end|ended|end(?:ing)? date|left)$"
)
MOST_RANKED = 400  # most relation paths of a topic entity that are encoded


class RankWords:
    """Puts questions and relation paths of one KG into words, and scores them with a ranker.

    ``folder``: the KG's, which may hold phrases of its relations.
    """

    def __init__(self, store: GraphStore, rules: WalkRules, folder: Path | None = None) -> None:
        self.store, self.rules = store, rules
        self.version = schema_version(store)
        self.schema = Schema(store, rules)
        self.phrases = [first for first, *_ in phrases_of(store, folder)]
        types = store.schema().types if isinstance(store, PropertyGraph) else ()
        named = [relation_phrase(type_.name) for type_ in types[:MOST_CLASSES]]
        last = [text.rpartition(" ")[2] for text in (*self.phrases[:_MOST_KINDS], *named) if text]
        self.kinds = list(dict.fromkeys(map(str.casefold, last)))  # nouns for entities
        self._folder = folder
        self._kept: dict[int, KeptVectors] = {}  # by encoder id
        self._texts: dict[tuple[Hop, ...], str] = {}  # texts of relation paths
        # an era of the ranker's, and where it has the vectors of relation paths
        self._rows: tuple[object, dict[tuple[Hop, ...], int]] = (None, {})
        self._values: dict[Hop, bool] = {}  # whether hops lead to values

    def vectors(self, ranker: PathRanker, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return text vectors by ``ranker``'s encoder.

        They are cached in the KG's folder, if it has one.
        """
        return ranker.vectors(texts, self._kept_of(ranker))

    def _kept_of(self, ranker: PathRanker) -> KeptVectors | None:
        """Return the vector cache of a ranker in the KG's folder, None without a folder."""
        if self._folder is None or not self._folder.is_dir():
            return None
        place = id(ranker.encoder)
        if place not in self._kept:
            self._kept[place] = ranker.keep_in(self._folder)
        return self._kept[place]

    def _rows_of(self, ranker: PathRanker, every: Sequence[Sequence[Hop]]) -> list[int]:
        """Return where ``ranker`` has the vectors of relation paths with their examples."""
        era, known = self._rows
        if era is not ranker.era or len(known) >= _MOST_TEXTS:
            era, known = self._rows = ranker.era, {}
        paths = list(map(tuple, every))
        try:
            return list(map(known.__getitem__, paths))
        except KeyError:
            new = [steps for steps in dict.fromkeys(paths) if steps not in known]
        found = ranker.rows([self.path(steps) for steps in new], self._kept_of(ranker))
        if era is not ranker.era:  # it forgot all others for the new ones
            return ranker.rows([self.path(steps) for steps in paths], self._kept_of(ranker))
        known.update(zip(new, found, strict=True))
        return [known[steps] for steps in paths]

    @cached_property
    def ends(self) -> list[int]:
        """The steps (2 * relation) of relations that lead to the end date of a fact."""
        return [2 * number for number, text in enumerate(self.phrases) if _END.search(text)]

    @cached_property
    def both_ways(self) -> frozenset[int]:
        """The relations that are symmetric, judging by their names."""
        return frozenset(at for at, one in enumerate(self.phrases) if holds_both_ways(one))

    @cached_property
    def _either(self) -> frozenset[int]:
        """The steps by symmetric relations, in both directions."""
        return frozenset(2 * relation + back for relation in self.both_ways for back in (0, 1))

    def either_way(
        self, share: NDArray[np.float64], every: Sequence[Sequence[Hop]]
    ) -> NDArray[np.float64]:
        """Change ``share`` in place: relation paths that mean the same both get their sum.

        They differ only in the direction of symmetric relations: "adjacent to" and its inverse.
        ``every``: the relation paths. Returns ``share``.
        """
        if not self.both_ways:
            return share
        alike: dict[object, list[int]] = {}
        either = self._either
        for at, steps in enumerate(every):
            if either.isdisjoint(chain.from_iterable(steps)):
                continue  # no other means the same
            same = tuple(tuple(self._undirected(step) for step in hop) for hop in steps)
            alike.setdefault(same, []).append(at)
        for rows in alike.values():
            if len(rows) > 1:
                share[rows] = share[rows].sum()
        return share

    def _undirected(self, step: int) -> int:
        """Return a step (2 * relation, + 1 reversed), not reversed if its relation is symmetric."""
        return step - step % 2 if step >= 0 and step // 2 in self.both_ways else step

    def said_both_ways(self, steps: Sequence[Hop]) -> str:
        """Return a note on the first symmetric relation of a relation path, "" if it has none."""
        both = [self.phrases[step // 2] for hop in steps for step in hop
                if step >= 0 and step // 2 in self.both_ways]  # fmt: skip
        return f'"{both[0]}" holds both ways: facts of either direction count.' if both else ""

    def path(self, steps: Sequence[Hop]) -> str:
        """Return a relation path in words, with examples of its tails; remembered."""
        key = tuple(steps)
        if (text := self._texts.get(key)) is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            text = relation_path_text(steps, self.phrases, self.schema.examples(steps[-1]))
            self._texts[key] = text
        return text

    def bare(self, steps: Sequence[Hop]) -> str:
        """Return a relation path in words, without examples."""
        return relation_path_text(steps, self.phrases)

    def is_value(self, hop: Hop) -> bool:
        """Return whether all examples of a hop's tails are values; False without examples."""
        if (value := self._values.get(hop)) is None:
            examples = self.schema.examples(hop)
            value = self._values[hop] = bool(examples) and all(map(read_value, examples))
        return value

    def hop(self, hop: Hop) -> str:
        """Return a hop's relation in words, both relations if it goes through a mediator."""
        return " ".join(self.phrases[step // 2] for step in hop if step >= 0)

    def shares(self, ranker: PathRanker, logits: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return probabilities from ``logits``: of each relation path, then that none fits."""
        whole = np.append(logits, ranker.none).astype(np.float64)
        share: NDArray[np.float64] = np.exp(whole - whole.max())
        share /= share.sum()
        return share

    def logits(
        self, ranker: PathRanker, asked: str, every: Sequence[Sequence[Hop]]
    ) -> NDArray[np.float32]:
        """Return the logit of each relation path for the question ``asked``.

        Of very many, all but the ``MOST_RANKED`` nearest get -inf.
        """
        logits = np.full(len(every), -np.inf, np.float32)
        question = ranker.vectors([asked])  # before rows are read, since it may forget them
        read: Sequence[int] = range(len(every))
        if len(every) > MOST_RANKED:
            if max(map(len, every)) == 1:  # a hop's vector is the path's: all have their logits
                near = ranker.logits_at(question, self._rows_of(ranker, every), [1] * len(every))
                nearest = np.argsort(-near, kind="stable")[:MOST_RANKED]
                logits[nearest] = near[nearest]
                return logits
            read = self.nearest(ranker, asked, every)[:MOST_RANKED]
        paths = [every[at] for at in read]
        rows = self._rows_of(ranker, paths)
        logits[read] = ranker.logits_at(question, rows, list(map(len, paths)))
        return logits

    def nearest(
        self, ranker: PathRanker, asked: str, every: Sequence[Sequence[Hop]]
    ) -> Sequence[int]:
        """Return the indices of the relation paths ``every``, the nearest to the question first.

        ``asked``: the question with ``x`` for its topic. Each path is compared by the sum of its
        hops' vectors.
        """
        question = ranker.vectors([asked])[0]  # before rows are read, since it may forget them
        single = list(dict.fromkeys(chain.from_iterable(every)))
        place = dict(zip(single, range(len(single)), strict=True))
        sums = ranker.at(self._rows_of(ranker, [(hop,) for hop in single]))
        longest = max(map(len, every), default=1)
        if longest > 1 or len(single) < len(every):
            rows = [[place[hop] for hop in one] + [-1] * (longest - len(one)) for one in every]
            sums = np.vstack([sums, np.zeros_like(sums[:1])])[np.array(rows)].sum(1)
        cosine = sums @ question / np.sqrt(np.einsum("pw,pw->p", sums, sums))
        near = ranker.scaled(cosine, list(map(len, every)))
        order: list[int] = np.argsort(-near, kind="stable").tolist()
        return order

    def names(
        self, entities: Iterable[TopicEntity | Candidate | Resolution]
    ) -> dict[int, tuple[str, ...]]:
        """Return the names, ids and aliases of entities, by key.

        An id made of a type and a key, such as ``Author/7``, is left out if there is a name: the
        question's "author" does not mean it.
        """
        called: dict[int, tuple[str, ...]] = {}
        for entity in entities:
            of = self.store.details(entity.key)
            made = entity.name != entity.id and entity.id.partition("/")[0] in of.types
            called[entity.key] = (entity.name, *(() if made else (entity.id,)), *of.aliases)
        return called

    def question(self, text: str, topic: int, names: Mapping[int, Sequence[str]]) -> str:
        """Return a question with ``x`` for the entity ``topic`` (key); others' names are removed.

        ``names``: of the topic entities, by key (:meth:`names`); -1 as ``topic`` removes all.
        """
        for key, called in names.items():
            text = without_name(text, called, TOPIC if key == topic else "")
        return text


@dataclass(frozen=True, slots=True)
class Weighed:
    """The scores of one topic's relation paths.

    ``probability`` of each; ``absent``: the probability that the graph has no answer, relative to
    the most probable path; ``missing``: what the topic lacks, "does not have …", if known.
    ``likeliest``: the most probable paths; ``lacking``: which part of a question in two parts is
    missing, if known.
    """

    probability: NDArray[np.float64]
    absent: float
    missing: str
    likeliest: tuple[RelationShare, ...] = ()
    lacking: str = ""


def entity_scores(
    found: Sequence[RelationPaths], weighed: Sequence[Weighed], topics: Iterable[int]
) -> dict[int, float]:
    """Return each entity's score, of its most probable relation path; of several topics multiplied.

    A sum over relation paths would prefer well connected entities to the requested ones. A topic
    that does not lead to an entity contributes the factor ``LACKING``. The ``topics`` (keys)
    themselves are left out.
    """
    topics, scores = {*topics}, dict[int, float]()
    every: list[dict[int, float]] = []
    for paths, one in zip(found, weighed, strict=True):
        keys, at = distinct(paths.table.ends())
        most = np.zeros(len(keys))
        np.maximum.at(most, at, one.probability[paths.of])
        every.append(dict(zip(keys.tolist(), most.tolist(), strict=True)))
    if len(every) == 1:
        return {key: score for key, score in every[0].items() if key not in topics}
    for key in set().union(*every).difference(topics):
        scores[key] = math.prod(one.get(key, LACKING) for one in every)
    return scores


def of_one_fact(
    store: GraphStore, found: Sequence[RelationPaths], scores: dict[int, float]
) -> dict[int, float]:
    """Lower the scores of values from other facts if the topics share a fact that has a value.

    "What quantity of tea did the order have" asks for the fact that joins both: other orders of
    tea, and other goods of the order, have their own quantities. Returned unchanged for a single
    topic, or if they share none.
    """
    if len(found) < 2:
        return scores
    own: list[set[tuple[int, int]]] = []  # (fact, tail) of each topic's facts
    ends: list[set[int]] = []  # tails of facts
    for paths in found:
        table = paths.table
        last = table.hops[np.arange(len(table)), table.length - 1]
        through = last[:, MEDIATOR] >= 0
        near = last[through & (table.length == 1)]
        own.append(set(map(tuple, near[:, (MEDIATOR, TAIL)].tolist())))
        ends.append(set(last[through, TAIL].tolist()))
    shared = {tail for _, tail in set.intersection(*own)}
    apart = set.intersection(*ends) - shared
    keys = keys_array(sorted(apart.intersection(scores)))
    if not shared or not len(keys):
        return scores
    values = keys[store.entities(keys).kinds == Kind.VALUE].tolist()
    return {**scores, **{key: scores[key] * LACKING for key in values}}
