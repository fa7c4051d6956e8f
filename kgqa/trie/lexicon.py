"""The token ids of the parts of paths (names, relations); each part is tokenised once.

A path's tokens are *defined* as those of its parts joined (head, each relation between links, each
tail, closing token), so stored and composed constraints accept the same language.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kgqa.deadline import check_deadline
from kgqa.errors import MarkerMissingError
from kgqa.trie.arrays import Sequences, dense, sequences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat


_AT_ONCE = 8_192  # names that are read and tokenised between two looks at the time


class TokenEncoder(Protocol):
    """Turns parts of paths into token ids; a name that spells a special token is text."""

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides which ids a text gets."""

    @property
    def vocab_size(self) -> int:
        """One more than the highest token id the model scores."""

    @property
    def eos_id(self) -> int:
        """The token that ends a text of the model."""

    @property
    def splits_at_spaces(self) -> bool:
        """Whether the ids of a printable text begin with those of any part before a lone space."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text: nothing added, special tokens split."""

    def marker_id(self, marker: str) -> int | None:
        """Return the single token id of a marker, None if the tokenizer has no such token."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""


class PathLexicon:
    """Token ids of names and relations under one tokenizer and format.

    Raises MarkerMissingError if the tokenizer lacks a marker: the constraint could be left.
    """

    def __init__(self, encoder: TokenEncoder, form: PathFormat) -> None:
        self.form = form
        self.encoder = encoder
        self.link: tuple[int, ...] = tuple(encoder.encode([form.link])[0])
        self.opening: tuple[int, ...] = (self._marker(form.start),) if form.start else ()
        self.closing: int = self._marker(form.end) if form.end else encoder.eos_id
        self._store: GraphStore | None = None
        self.clear()

    def _marker(self, marker: str) -> int:
        """Return the token id of a marker. Raises MarkerMissingError."""
        token = self.encoder.marker_id(marker)
        if token is None:
            raise MarkerMissingError(
                f"The tokenizer has no token for the marker {marker!r}, so a path could not be "
                "held inside it.",
                "Use a model that was trained with it, or a `preset` without markers: default.",
            )
        return token

    def _encode(self, texts: Sequence[str], part: _Part) -> list[list[int]]:
        """Return the token ids of ``texts`` as path parts of one kind, with the tokens around them.

        ``part``: head, relation or tail.
        """
        distinct = list(dict.fromkeys(texts))
        ids = self.encoder.encode([part.gap + text for text in distinct])
        if part.before or part.behind:
            ids = [[*part.before, *id_, *part.behind] for id_ in ids]
        if len(distinct) == len(texts):
            return ids
        of = dict(zip(distinct, ids, strict=True))
        return [of[text] for text in texts]

    def heads(self, store: GraphStore, keys: IntArray) -> Sequences:
        """Return the token ids of each entity's name as a path's head, the opening marker first."""
        return self._named(store, keys, heads=True)

    def tails(self, store: GraphStore, keys: IntArray) -> Sequences:
        """Return the token ids of each entity's name as a tail."""
        return self._named(store, keys, heads=False)

    def first_words(
        self, store: GraphStore, keys: IntArray, *, heads: bool
    ) -> tuple[Sequences, IntArray]:
        """Return the token ids of distinct first words of names, and each entity's index in them.

        They are the beginning of what :meth:`heads` or :meth:`tails` returns, if the encoder
        ``splits_at_spaces``.
        """
        self._belong_to(store)
        part = self._heads if heads else self._tails

        def encoded(new: list[str]) -> list[list[int]]:
            """Return the token ids of new first words."""
            return self._encode(new, part)

        numbers = keys.tolist()
        for some in _batches([key for key in numbers if key not in part.word]):
            words = [_first_word(name) for name in names_of(store, np.array(some))]
            part.word.update(zip(some, part.words.rows(words, encoded).tolist(), strict=True))
        rows = np.fromiter(map(part.word.__getitem__, numbers), np.int64, len(numbers))
        distinct, number = dense(rows)
        return part.words.at(distinct), number

    def _named(self, store: GraphStore, keys: IntArray, *, heads: bool) -> Sequences:
        """Return the token ids of entities' names as heads or as tails."""
        self._belong_to(store)
        part = self._heads if heads else self._tails

        def encoded(new: list[int]) -> list[list[int]]:
            """Return the token ids of the names of new keys."""
            return self._encode(names_of(store, np.array(new)), part)

        return part.names.take(keys.tolist(), encoded)

    def relations(self, store: GraphStore, pairs: IntArray) -> Sequences:
        """Return the token ids of relations with their separators.

        ``pairs`` ``[n, 2]``: steps (2 * relation, + 1 reversed), the second -1 without a mediator.
        """
        self._belong_to(store)

        def encoded(new: list[tuple[int, int]]) -> list[list[int]]:
            """Return the token ids of new pairs of steps, see :meth:`relations`."""
            names = store.relations().names
            labels = [self.form.relation(first, second, names) for first, second in new]
            return self._encode(labels, self._relations)

        return self._relations.names.take(list(map(tuple, pairs.tolist())), encoded)

    def sequence(self, head: str, hops: Sequence[tuple[str, str]]) -> list[int]:
        """Return the token ids of a path: its head's name, then (relation, tail) for each hop."""
        return [token for part in self.parts(head, hops) for token in part]

    def parts(self, head: str, hops: Sequence[tuple[str, str]]) -> list[list[int]]:
        """Return the token ids of :meth:`sequence` in parts; entities' names are at odd indices."""
        gap = self.form.gap
        texts = [self.form.lead + head, *(gap + part for hop in hops for part in hop)]
        head_ids, *rest = self.encoder.encode(texts)
        pieces = [[*self.opening], head_ids]
        for relation, tail in zip(rest[::2], rest[1::2], strict=True):
            pieces += [[*self.link, *relation, *self.link], tail]
        return [*pieces, [self.closing]]

    @property
    def names(self) -> int:
        """The number of names and relations in memory."""
        return len(self._heads) + len(self._tails) + len(self._relations)

    def clear(self) -> None:
        """Forget all names, so that a long run over a whole KG keeps its memory bounded."""
        form = self.form
        self._heads = _Part(form.lead, self.opening)
        self._tails = _Part(form.gap)
        self._relations = _Part(form.gap, self.link, self.link)

    def _belong_to(self, store: GraphStore) -> None:
        """Forget all names if ``store`` is another one than before."""
        if store is not self._store:  # its keys are others
            self.clear()
            self._store = store


class _Part:
    """A kind of path part (head, relation or tail): the text around it, and its known token ids."""

    def __init__(
        self, gap: str, before: tuple[int, ...] = (), behind: tuple[int, ...] = ()
    ) -> None:
        self.gap, self.before, self.behind = gap, before, behind
        self.names, self.words = _Pool(), _Pool()
        self.word: dict[int, int] = {}  # the row of each entity's first word

    def __len__(self) -> int:
        return len(self.names) + len(self.word)


class _Pool:
    """Token ids by key, in joined arrays; new keys are encoded in batches."""

    def __init__(self) -> None:
        self._row: dict[Any, int] = {}
        self._tokens = array("q")
        self._offsets = array("q", [0])

    def __len__(self) -> int:
        return len(self._row)

    def take(
        self, keys: Sequence[Any], encoded: Callable[[list[Any]], Sequence[Sequence[int]]]
    ) -> Sequences:
        """Return the token ids of each key; ids of new keys are read from ``encoded`` in batches.

        Ids encoded before a time limit ends the call are kept (:mod:`kgqa.trie.constraint`).
        """
        return self.at(self.rows(keys, encoded))

    def rows(
        self, keys: Sequence[Any], encoded: Callable[[list[Any]], Sequence[Sequence[int]]]
    ) -> IntArray:
        """Return the row of each key in the pool; new keys are encoded by ``encoded`` first."""
        for some in _batches([key for key in dict.fromkeys(keys) if key not in self._row]):
            ids = sequences(encoded(some))
            self._offsets.frombytes((self._offsets[-1] + ids.offsets[1:]).tobytes())
            self._tokens.frombytes(ids.tokens.tobytes())
            self._row.update(zip(some, range(len(self._row), len(self._offsets) - 1), strict=True))
        return np.fromiter(map(self._row.__getitem__, keys), np.int64, len(keys))

    def at(self, rows: IntArray) -> Sequences:
        """Return the token ids at ``rows``, copied."""
        # views, that must be gone before the arrays grow again: ``take`` copies
        tokens, offsets = (
            np.frombuffer(buffer, np.int64) for buffer in (self._tokens, self._offsets)
        )
        return Sequences(tokens, offsets).take(rows)


def _batches(new: list[Any]) -> Iterator[list[Any]]:
    """Yield ``new`` in batches, checking the deadline before each."""
    for start in range(0, len(new), _AT_ONCE):
        check_deadline()
        yield new[start : start + _AT_ONCE]


def _first_word(name: str) -> str:
    """Return a name's text before its first space, or all of it if it may not be split there."""
    word, _, rest = name.partition(" ")
    return word if word and rest and rest[0] != " " and name.isprintable() else name


def names_of(store: GraphStore, keys: IntArray) -> list[str]:
    """Return each entity's name as paths write it: its id if it has no name."""
    entities = store.entities(keys)
    return [name or id_ for name, id_ in zip(entities.names, entities.ids, strict=True)]
