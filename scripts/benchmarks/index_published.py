"""The published way to keep the tries of paths, written anew from its description."""

from __future__ import annotations

from typing import TYPE_CHECKING

import marisa_trie

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.models.tokenizer import HFEncoder


class PublishedTrie:
    """Paths as strings in a trie of characters, a character for each token id."""

    def __init__(self, texts: Sequence[str], encoder: HFEncoder, closing: int) -> None:
        rows = encoder.encode(texts)
        self.trie = marisa_trie.Trie("".join(map(_character, [*row, closing])) for row in rows)

    def allowed(self, prefix: Sequence[int]) -> list[int]:
        """Return the tokens that may follow ``prefix``."""
        written = "".join(map(_character, prefix))
        keys = self.trie.keys(written)
        return list({_token(key[len(written)]) for key in keys if len(key) > len(written)})

    def language(self) -> set[tuple[int, ...]]:
        """Return every token sequence."""
        return {tuple(map(_token, key)) for key in self.trie.keys()}  # noqa: SIM118


_SURROGATES = range(0xD800, 0xE000)  # are not characters of their own


def _character(token: int) -> str:
    return chr(token if token < _SURROGATES.start else token + len(_SURROGATES))


def _token(character: str) -> int:
    code = ord(character)
    return code if code < _SURROGATES.start else code - len(_SURROGATES)


def path_texts(edges: dict[str, list[tuple[str, str]]], topic: str, hops: int) -> list[str]:
    """Return all paths as strings: depth first over a dict, no entity twice."""
    texts: list[str] = []

    def go(text: str, at: str, seen: tuple[str, ...]) -> None:
        for relation, tail in edges.get(at, ()):
            if tail not in seen:
                longer = f"{text} -> {relation} -> {tail}"
                texts.append(longer)
                if len(seen) < hops:
                    go(longer, tail, (*seen, tail))

    go(f" {topic}", topic, (topic,))
    return texts
