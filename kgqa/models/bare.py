"""A fast tokenizer without transformers, for processes that only tokenise names.

Importing transformers (and torch with it) takes a worker process seconds and hundreds of megabytes.
What a fast tokenizer does to a text is all in its serialised form, which the ``tokenizers`` library
reads alone; so a process that has the transformers tokenizer hands that form over, and the other
gets the same ids. Slow tokenizers, whose ids Python code decides, have no such form.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from kgqa.models.tokenizer import PartEncoder
from kgqa.trie.check import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.models.tokenizer import HFEncoder

_OWN_CODE = ("__call__", "_encode_plus", "decode", "_decode")  # where Python may change the ids
_LEFT_OUT = ("truncation", "padding", "post_processor")  # they never touch the ids of a part


class BareEncoder(PartEncoder):
    """A :class:`kgqa.trie.tokens.TokenEncoder` over a serialised fast tokenizer.

    Picklable: what is pickled is the serialised form, and the tokenizer is made when it is first
    used. Made by :func:`bare_encoder`.
    """

    def __init__(self, serialised: str, encoder: HFEncoder) -> None:
        self._serialised = serialised
        self.fingerprint = encoder.fingerprint
        self.eos_id = encoder.eos_id
        self.vocab_size = encoder.vocab_size
        self.unknown_id = encoder.unknown_id
        self.added_tokens = encoder.added_tokens
        self.dummy_prefix = encoder.dummy_prefix
        self._anchor = list(encoder._anchor)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_tokenizer"}

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_str(self._serialised)
        tokenizer.encode_special_tokens = True  # a name that spells one is text
        return tokenizer

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens written out."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    def _plain(self, texts: Sequence[str]) -> list[list[int]]:
        batch = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in batch]


def bare_encoder(encoder: HFEncoder) -> BareEncoder | None:
    """Return what gives the same ids as ``encoder`` without transformers.

    None for a slow tokenizer, for one whose class has its own code between a text and its ids, and
    for one that is seen to give other ids for difficult texts.
    """
    from transformers import PreTrainedTokenizerFast

    tokenizer: Any = encoder.tokenizer
    kind = type(tokenizer)
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or any(
        getattr(kind, name) is not getattr(PreTrainedTokenizerFast, name) for name in _OWN_CODE
    ):
        return None
    whole = json.loads(tokenizer.backend_tokenizer.to_str())
    whole |= dict.fromkeys(_LEFT_OUT)
    bare = BareEncoder(json.dumps(whole, ensure_ascii=False), encoder)
    special = [text for token in encoder.added_tokens for text in (token, f"Foo {token} bar")]
    texts = [*NAMES, *special[:200]]
    expected = encoder._plain(texts)
    same = bare._plain(texts) == expected and all(
        bare.decode(ids) == encoder.decode(ids) for ids in expected
    )
    return bare if same else None
