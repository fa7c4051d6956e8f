"""Work units: a few topic entities, walked and tokenised into the rows that an index keeps.

Nothing here imports a model library, so that worker processes start at once and stay small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgqa.errors import IndexFault
from kgqa.paths.sample import Sample, sample_walk
from kgqa.paths.walk import walk
from kgqa.trie.build import path_tokens
from kgqa.trie.index.shard import encode_row, token_width

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.lexicon import PathLexicon

    Resources = Callable[[], tuple[GraphStore, PathLexicon]]

AT_ONCE = 32  # entities of a unit; bounds the memory when each is just under the cap
_REMEMBERED = 512  # entities after which the names read so far are forgotten


@dataclass(frozen=True, slots=True)
class UnitSettings:
    """What is the same for all units of a run, entity keys being those of ``kg_version``."""

    rules: WalkRules
    cap: int
    sample: Sample | None
    kg_version: str


@dataclass(frozen=True, slots=True)
class Unit:
    """The rows of a unit's entities, and the ids of those that have more paths than the cap."""

    rows: list[dict[str, Any]]
    composed: list[str]

    @property
    def bytes(self) -> int:
        """The size of the rows before they are compressed."""
        return sum(len(row["hops"]) + len(row["tokens"]) for row in self.rows)


class Worker:
    """Makes units one after another with one store and one lexicon, in bounded memory."""

    def __init__(self, store: GraphStore, lexicon: PathLexicon) -> None:
        self.store = store
        self._lexicon = lexicon
        self._width = token_width(lexicon.encoder.vocab_size)
        self._since = 0  # entities since the names were forgotten

    def work(self, topics: IntArray, settings: UnitSettings) -> Unit:
        """Return the rows of ``topics`` (ascending keys), and the ids of those that have too many.

        With a sample none has. Raises IndexFault if the store holds another version of the KG.
        """
        version = self.store.info.version
        if version != settings.kg_version:
            raise IndexFault(
                f"The graph {self.store.url} holds version {version[:12]} of the KG, not "
                f"{settings.kg_version[:12]}, for which this run was started.",
                "Every worker must read the same graph. If it was loaded again meanwhile, run the "
                "same command again.",
            )
        unit = Unit([], [])
        for start in range(0, len(topics), AT_ONCE):
            self._add(topics[start : start + AT_ONCE], settings, unit)
        self._since += len(topics)
        if self._since >= _REMEMBERED:
            self._lexicon.clear()
            self._since = 0
        return unit

    def _add(self, keys: IntArray, settings: UnitSettings, unit: Unit) -> None:
        ids = self.store.entities(keys).ids
        if settings.sample is None:
            table, over = walk(self.store, keys, settings.rules, settings.cap)
        else:
            table, over = sample_walk(self.store, keys, settings.rules, settings.sample), keys[:0]
        too_many = set(over.tolist())
        for key, entity_id in zip(keys.tolist(), ids, strict=True):
            if key in too_many:
                unit.composed.append(entity_id)
                continue
            mine = table.of(key)
            tokens = path_tokens(self.store, mine, self._lexicon)
            # an entity without a path gets an empty row, so that a later run need not look again
            unit.rows.append(encode_row(entity_id, key, tokens, mine, self._width))
