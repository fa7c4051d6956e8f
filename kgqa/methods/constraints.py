"""The constraint for some topic entities: from the index where it serves, else on the fly.

Both forms accept the same language, so what is answered does not depend on which one served; what
kept the index from serving is told, never guessed around.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgqa.answers.answer import ConstraintUse
from kgqa.errors import ShardDamagedError
from kgqa.graph.model import keys_array
from kgqa.trie.composed import ComposedConstraint
from kgqa.trie.stored import stored_constraint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import TopicEntity
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.constraint import Constraint
    from kgqa.trie.index.reader import TrieIndex
    from kgqa.trie.index.shard import StoredTrie
    from kgqa.trie.lexicon import PathLexicon


@dataclass(frozen=True, slots=True)
class Choice:
    """The constraint, which form served each topic entity, and what the user should know."""

    constraint: Constraint
    uses: tuple[ConstraintUse, ...]
    notes: tuple[str, ...]


def choose_constraint(
    store: GraphStore,
    topics: Sequence[TopicEntity],
    rules: WalkRules,
    lexicon: PathLexicon,
    index: TrieIndex | None,
) -> Choice:
    """Return the constraint whose language is every path out of ``topics``.

    ``index`` fits the KG, the tokenizer, the format and the rules, or is None; the language of one
    that holds a sample is that sample, and a note says so. Raises
    EmptyLanguageError where no topic entity has a path.
    """
    notes: list[str] = []
    stored = _all_stored(topics, index, notes)
    if stored is not None:
        constraint: Constraint = stored_constraint([(one.sequences, one.table) for one in stored])
        uses = tuple(
            ConstraintUse(topic.id, "shard", len(one.table))
            for topic, one in zip(topics, stored, strict=True)
        )
        notes += _sampled(topics, stored, index)
        return Choice(constraint, uses, tuple(notes))
    keys = keys_array([topic.key for topic in topics])
    constraint = ComposedConstraint(store, keys, rules, lexicon)
    uses = tuple(ConstraintUse(topic.id, "composed", None) for topic in topics)
    return Choice(constraint, uses, tuple(notes))


def _sampled(
    topics: Sequence[TopicEntity], stored: Sequence[StoredTrie], index: TrieIndex | None
) -> list[str]:
    """Return a note for each topic entity of which the index may hold but a sample."""
    sample = index.manifest.key.sampled if index is not None else None
    return [
        f"The index holds a sample of {topic.name} ({topic.id}): {sample}. Answering from that."
        for topic, one in zip(topics, stored, strict=True)
        if sample is not None and len(one.table) >= sample.size
    ]


def _all_stored(
    topics: Sequence[TopicEntity], index: TrieIndex | None, notes: list[str]
) -> list[StoredTrie] | None:
    if index is None:
        return None
    found = []
    for topic in topics:
        try:
            one = index.look_up(topic.id)
        except ShardDamagedError as error:
            notes.append(f"{error} Answering on the fly.")
            return None
        if one is None:
            if not index.is_composed(topic.id):
                notes.append(
                    f"The index has no trie of {topic.name} ({topic.id}); answering on the fly. "
                    "Add it: kgqa precompute-tries"
                )
            return None
        found.append(one)
    return found
