"""The token ids of the parts of paths, each part tokenised once.

A path's tokens are *defined* as the joined tokens of its parts: the head's name, and for each hop a
relation between two links and the tail's name; then the closing token. So a stored trie and a
constraint composed on the fly accept the same language by construction, whatever a tokenizer would
make of the whole string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.errors import MarkerMissingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.paths.format import PathFormat
    from kgqa.trie.tokens import TokenEncoder


class PathLexicon:
    """Token ids of names and relations under one tokenizer and one path format.

    Raises MarkerMissingError where the format has a marker that the tokenizer lacks: decoding
    without it would leave the constraint.
    """

    def __init__(self, encoder: TokenEncoder, form: PathFormat) -> None:
        self.form = form
        self.encoder = encoder
        self.link: tuple[int, ...] = tuple(encoder.encode([form.link])[0])
        self.opening: tuple[int, ...] = (self._marker(form.start),) if form.start else ()
        self.closing: int = self._marker(form.end) if form.end else encoder.eos_id
        self._cache: dict[str, tuple[int, ...]] = {}

    def _marker(self, marker: str) -> int:
        token = self.encoder.marker_id(marker)
        if token is None:
            raise MarkerMissingError(
                f"The tokenizer has no token for the marker {marker!r}, so a path could not be "
                "held inside it.",
                "Use a model that was trained with it, or one without markers (--preset default).",
            )
        return token

    def _encode(self, texts: Iterable[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._cache]
        if new:
            for text, ids in zip(new, self.encoder.encode(new), strict=True):
                self._cache[text] = tuple(ids)

    def heads(self, names: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the token ids of each name as a path's head, the opening marker first."""
        texts = [self.form.lead + name for name in names]
        self._encode(texts)
        return [(*self.opening, *self._cache[text]) for text in texts]

    def relations(self, labels: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the token ids of each relation text, with the links on both sides."""
        texts = [self.form.gap + label for label in labels]
        self._encode(texts)
        return [(*self.link, *self._cache[text], *self.link) for text in texts]

    def tails(self, names: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the token ids of each name as a tail."""
        texts = [self.form.gap + name for name in names]
        self._encode(texts)
        return [self._cache[text] for text in texts]

    def sequence(self, head: str, hops: Sequence[tuple[str, str]]) -> list[int]:
        """Return the token ids of a whole path, from its opening to its closing token."""
        ids = list(self.heads([head])[0])
        for relation, tail in hops:
            ids.extend(self.relations([relation])[0])
            ids.extend(self.tails([tail])[0])
        ids.append(self.closing)
        return ids

    def clear(self) -> None:
        """Forget all names, so that a long run over a whole KG keeps its memory bounded."""
        self._cache.clear()
