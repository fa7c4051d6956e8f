"""The interface to a tokenizer, as far as tries need one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


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
