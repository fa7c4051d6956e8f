"""A transformers tokenizer as the token encoder of tries and prompts.

Text that comes from users and graphs is data: special tokens in it are split into ordinary ones,
and nothing is added in front or behind. SentencePiece tokenizers put a space (``▁``) before every
text they encode; the parts of a path are joined, so a part must not bring its own: there a line
break is encoded in front and its tokens cut off again. Where even that cannot keep the space away,
``dummy_prefix`` is true and every part starts with one.

:class:`BareEncoder` gives the same ids without transformers, which with torch takes a process that
only tokenises names seconds and hundreds of megabytes to import.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import BPE

from kgqa.errors import ModelError, first_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

_ANCHOR = "\n"
_MANY = 1_000  # texts for which it pays to find out whether transformers can be done without
_JOINED = 64  # names that are encoded as one text if their tokens can be separated again
_SPACE = "Ġ"  # how byte-level tokenizers write a space in a token
_SPACES = "▁Ġ"  # how SentencePiece and byte-level tokenizers write a space in a token
# Of a serialised fast tokenizer, what decides the ids of a text to which nothing is added. Padding
# and truncation change with each call; the post-processor and the decoder never touch those ids.
_DECISIVE = ("added_tokens", "normalizer", "pre_tokenizer", "model")
_OWN_CODE = ("__call__", "_encode_plus", "decode", "_decode")  # where Python may change the ids
_LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LEFT_OUT = ("truncation", "padding")  # they never touch the ids of a part
# what a bare encoder reports of itself
_KNOWN = (
    *("fingerprint", "eos_id", "vocab_size", "unknown_id", "added_tokens", "dummy_prefix"),
    "_anchor",
)


# texts that tokenizers treat in ways of their own
DIFFICULT = (
    "1999",
    "3.14159",
    "12345678901",
    " leading",
    "  two leading",
    "trailing ",
    "a -> b",
    " -> ",
    "->",
    "New",
    "New York",
    "New York City",
    "U.S.",
    "U.S. Route 66",
    "😀",
    "👩‍👩‍👧 family",
    "北京",
    "北京市 (Beijing)",
    "東京タワー",
    "한국어",
    "naïve café",
    "O'Brien's",
    '"quoted"',
    "don't",
    "(parentheses)",
    "C++",
    "#hash",
    "-1",
    "...",
    "x",
)


class PartEncoder(ABC):
    """Encodes the parts of paths with any tokenizer that can encode a batch of texts.

    A :class:`kgqa.trie.lexicon.TokenEncoder`, but for its fingerprint.
    """

    vocab_size: int  # one more than the highest token id the model scores
    eos_id: int  # the token that ends a text of the model
    unknown_id: int | None  # the token for unknown text, None if there is none
    added_tokens: dict[str, int]  # the ids of the tokens that were added to the vocabulary
    dummy_prefix: bool  # whether every part starts with a space that cannot be kept away
    _anchor: list[int]  # the token ids to be cut off in front

    @property
    def anchor(self) -> str | None:
        """The text put before each text to avoid SentencePiece's leading space; None: nothing."""
        return _ANCHOR if self._anchor else None

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens written out."""

    @abstractmethod
    def _plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text without the anchor; special tokens are split."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text without extra tokens; special tokens are split.

        A character for which the vocabulary has neither token nor bytes is left out or unknown, as
        the tokenizer has it (SmolLM2 lacks six control characters and unassigned planes): such
        names may share their ids, as names that are equal do.

        Raises ModelError if the tokenizer writes a text differently after a line break, so that the
        space it puts in front cannot be kept away.
        """
        if not texts:
            return []
        if not self._anchor:
            return self._plain(texts)
        cut = len(self._anchor)
        rows = self._plain([_ANCHOR + text for text in texts])
        for text, ids in zip(texts, rows, strict=True):
            if ids[:cut] != self._anchor:
                raise ModelError(
                    f"The tokenizer joins {text[:60]!r} with a line break before it, so it cannot "
                    "stand as a part of a path."
                )
        return [ids[cut:] for ids in rows]

    def marker_id(self, marker: str) -> int | None:
        """Return the single token id of a marker, None if the tokenizer has no such token.

        The token for unknown text is not a marker, whatever it is called.
        """
        if not marker:
            return None
        token = self.added_tokens.get(marker)
        if token is None:
            ids = self.encode([marker])[0]
            token = ids[0] if len(ids) == 1 and self.decode(ids) == marker else None
        return None if token == self.unknown_id else token


class HFEncoder(PartEncoder):
    """A :class:`kgqa.trie.lexicon.TokenEncoder` over a transformers tokenizer.

    ``vocab_size`` is the number of tokens that the model scores (the width of its logits), which
    may be more than the tokenizer knows; without it the tokenizer's own number is taken.

    Raises ModelError if the tokenizer has no end-of-sequence token.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, *, vocab_size: int | None = None
    ) -> None:
        from kgqa.models.pretrained import LOADING_ERRORS  # with transformers

        self._anchor: list[int] = []
        try:
            eos = tokenizer.eos_token_id
            self.unknown_id = tokenizer.unk_token_id
            self.added_tokens = tokenizer.get_added_vocab()
            self._tokenizer = tokenizer
            bare, anchor, anchored = self._plain(["a", _ANCHOR, _ANCHOR + "a"])
        except LOADING_ERRORS as error:
            raise ModelError(
                f"The tokenizer of {tokenizer.name_or_path} cannot be used: {first_line(error)}.",
                "Its tokenizer_config.json is damaged.",
            ) from error
        if not isinstance(eos, int):
            raise ModelError(
                f"The tokenizer of {tokenizer.name_or_path} has no end-of-sequence token.",
                "Set eos_token in its tokenizer_config.json.",
            )
        self.eos_id = eos
        if vocab_size:
            self.vocab_size = vocab_size
        self.dummy_prefix = False
        if anchored[: len(anchor)] == anchor and anchored[len(anchor) :] not in ([], bare):
            self._anchor = anchor
        else:
            self.dummy_prefix = str(tokenizer.convert_ids_to_tokens(bare[0]))[0] in _SPACES

    @cached_property
    def vocab_size(self) -> int:  # type: ignore[override]  # it can be set all the same
        """The number of tokens that the model scores; by default the highest token id plus one."""
        return 1 + max(self._tokenizer.get_vocab().values())

    @property
    def splits_at_spaces(self) -> bool:
        """Whether the ids of a printable text begin with those of any part before a lone space."""
        return self._fast is not None and _splits_at_spaces(self._fast)

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The wrapped transformers tokenizer."""
        return self._tokenizer

    @cached_property
    def fingerprint(self) -> str:
        """Hex SHA-256 of everything that decides the ids of a text: vocabulary, merges, rules.

        Equal in every process, and before and after the tokenizer was saved and loaded.
        """
        tokenizer: Any = self._tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        content: Any
        if backend is not None:
            whole = json.loads(backend.to_str())
            content = [whole.get(key) for key in _DECISIVE]
        else:
            content = [type(tokenizer).__name__, tokenizer.get_vocab(), tokenizer.get_added_vocab()]
        text = json.dumps([content, self._anchor, self.eos_id], sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens written out."""
        text = self._tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        assert isinstance(text, str)
        return text

    def _plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text without the anchor, by the fast tokenizer for many."""
        if (len(texts) >= _MANY or "_fast" in vars(self)) and self._fast is not None:
            return _encoded(self._fast, texts)
        return self._by_transformers(texts)

    @cached_property
    def _fast(self) -> Tokenizer | None:
        """The Rust tokenizer of a fast tokenizer, None if it gives other ids for difficult texts.

        None also for a slow tokenizer, or one whose class has its own code.
        """
        from transformers import PreTrainedTokenizerFast

        tokenizer: Any = self._tokenizer
        kind = type(tokenizer)
        # a subclass with Python between text and ids cannot be replaced by what is underneath
        if not isinstance(tokenizer, PreTrainedTokenizerFast) or any(
            getattr(kind, name) is not getattr(PreTrainedTokenizerFast, name) for name in _OWN_CODE
        ):
            return None
        fast: Tokenizer = tokenizer.backend_tokenizer
        texts = _hard_texts(self)
        return fast if _encoded(fast, texts) == self._by_transformers(texts) else None

    def _by_transformers(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text by the transformers tokenizer."""
        batch = self._tokenizer(
            list(texts),
            add_special_tokens=False,
            split_special_tokens=True,
            return_attention_mask=False,
            verbose=False,  # a name longer than the context is not for the tokenizer to judge
        )
        rows: list[list[int]] = batch["input_ids"]
        return rows


class BareEncoder(PartEncoder):
    """A token encoder over a serialised fast tokenizer, without transformers. Picklable."""

    fingerprint: str  # that of the HFEncoder which it stands for

    def __init__(self, serialised: str, known: Mapping[str, Any]) -> None:
        self._serialised = serialised
        vars(self).update({name: known[name] for name in _KNOWN})

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "tokenizer"}

    def known(self) -> dict[str, Any]:
        """Return the state that the serialised tokenizer lacks, as a JSON object."""
        return {name: getattr(self, name) for name in _KNOWN}

    @property
    def serialised(self) -> str:
        """The tokenizer in the JSON format of the tokenizers library."""
        return self._serialised

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, set to split texts that spell a special token."""
        tokenizer = Tokenizer.from_str(self._serialised)
        tokenizer.encode_special_tokens = True  # a name that spells one is text
        return tokenizer

    @cached_property
    def splits_at_spaces(self) -> bool:
        """Whether the ids of a printable text begin with those of any part before a lone space."""
        return _splits_at_spaces(self.tokenizer)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens written out."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    def _plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        return _ids(self.tokenizer, texts)


def _splits_at_spaces(tokenizer: Tokenizer) -> bool:
    """Return whether a text's ids are those up to a lone space, then those from there.

    That holds if no rule rewrites the text and it is split by a regular expression whose matches
    have a space only as their first character: GPT-2's (SmolLM2 has it) and Llama 3's.
    """
    if (
        tokenizer.normalizer is not None
        or not isinstance(tokenizer.model, BPE)
        or tokenizer.model.dropout
        or not all(token.special for token in tokenizer.get_added_tokens_decoder().values())
    ):
        return False
    form = json.loads(tokenizer.pre_tokenizer.__getstate__()) if tokenizer.pre_tokenizer else {}
    first, *_ = form.get("pretokenizers", [form])
    if first.get("type") == "ByteLevel":
        return bool(first["use_regex"])
    return first.get("type") == "Split" and (
        first["pattern"],
        first["behavior"],
        first["invert"],
    ) == ({"Regex": _LLAMA_3}, "Isolated", False)


def _encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of texts, special tokens split and none added.

    The tokenizer's settings are restored.
    """
    before = tokenizer.encode_special_tokens, tokenizer.truncation, tokenizer.padding
    tokenizer.encode_special_tokens = True
    tokenizer.no_truncation()
    tokenizer.no_padding()
    try:
        return _ids(tokenizer, texts)
    finally:
        tokenizer.encode_special_tokens = before[0]
        if before[1]:
            tokenizer.enable_truncation(**before[1])
        if before[2]:
            tokenizer.enable_padding(**before[2])


def _ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of texts; of many, those that begin with a space are encoded joined."""
    if len(texts) < _MANY or not _begins_words(tokenizer):
        return _one_by_one(tokenizer, texts)
    rows = [row for row, text in enumerate(texts) if _begins_alone(text)]
    together = _together(tokenizer, [texts[row] for row in rows])
    if together is None:
        return _one_by_one(tokenizer, texts)
    found = dict(zip(rows, together, strict=True))
    rest = [row for row in range(len(texts)) if row not in found]
    found.update(zip(rest, _one_by_one(tokenizer, [texts[row] for row in rest]), strict=True))
    return [found[row] for row in range(len(texts))]


def _one_by_one(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of texts, each encoded by itself."""
    batch = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [encoding.ids for encoding in batch]


def _begins_words(tokenizer: Tokenizer) -> bool:
    """Return whether each lone space is the first byte of a token, which is written with a Ġ."""
    if not _splits_at_spaces(tokenizer):
        return False
    form = json.loads(tokenizer.pre_tokenizer.__getstate__())
    return bool([form, *form.get("pretokenizers", [])][-1]["type"] == "ByteLevel")


def _begins_alone(text: str) -> bool:
    """Return whether a printable text has only lone spaces, the first of them in front."""
    return text[:1] == " " != text[-1:] and "  " not in text and text.isprintable()


def _together(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]] | None:
    """Return the token ids of texts that begin with a space and have only lone ones.

    A space is the first byte of a token or of none (of a character that the vocabulary lacks), and
    no other token begins with a Ġ: as many of them as there are spaces show where each text begins.
    None if there are fewer.
    """
    parts = ["".join(texts[at : at + _JOINED]) for at in range(0, len(texts), _JOINED)]
    ids = list(chain.from_iterable(_one_by_one(tokenizer, parts)))
    distinct, number = np.unique(np.array(ids, np.int64), return_inverse=True)
    begins = [(tokenizer.id_to_token(id_) or "")[:1] == _SPACE for id_ in distinct.tolist()]
    starts = [*np.flatnonzero(np.array(begins, bool)[number]).tolist(), len(ids)]
    spaces = [0, *accumulate(text.count(" ") for text in texts)]
    if spaces[-1] != len(starts) - 1:
        return None
    return [ids[starts[first] : starts[last]] for first, last in pairwise(spaces)]


def _hard_texts(encoder: PartEncoder) -> list[str]:
    """Return difficult texts that show whether two tokenizers encode alike."""
    special = [text for token in encoder.added_tokens for text in (token, f"Foo {token} bar")]
    return [*DIFFICULT, *special[:200]]


class BareTokenizer:
    """The methods of a transformers tokenizer that prompts need, over a bare ``encoder``.

    ``folder``: where transformers can load the tokenizer for its chat template.
    """

    def __init__(self, encoder: BareEncoder, folder: Path, chat_template: str | None) -> None:
        self.chat_template = chat_template
        self.name_or_path = str(folder)
        self._folder = folder
        self._encoder = encoder

    @property
    def added_tokens_decoder(self) -> dict[int, Any]:
        """The added tokens by their ids."""
        tokens: dict[int, Any] = self._encoder.tokenizer.get_added_tokens_decoder()
        return tokens

    def __call__(
        self, text: str, *, add_special_tokens: bool = True, split_special_tokens: bool = False
    ) -> dict[str, list[int]]:
        """Return the ``input_ids`` of a text, as transformers does.

        ``split_special_tokens``: treat special tokens in the text as text.
        """
        tokenizer = self._encoder.tokenizer
        tokenizer.encode_special_tokens = split_special_tokens
        try:
            ids = tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        finally:
            tokenizer.encode_special_tokens = True
        return {"input_ids": ids}

    def apply_chat_template(self, turns: Any, **more: Any) -> Any:
        """Render a chat with the template, by loading transformers."""
        from transformers import AutoTokenizer

        from kgqa.models.pretrained import from_pretrained

        return from_pretrained(AutoTokenizer, self._folder).apply_chat_template(turns, **more)


def bare_encoder(encoder: HFEncoder) -> BareEncoder | None:
    """Return an encoder without transformers that has the same ids as ``encoder``, or None.

    None for a slow tokenizer, for one whose class has its own code between a text and its ids, and
    for one that gives other ids for difficult texts.
    """
    if encoder._fast is None:
        return None
    whole = json.loads(encoder._fast.to_str())
    whole |= dict.fromkeys(_LEFT_OUT)
    known = {name: getattr(encoder, name) for name in _KNOWN}
    bare = BareEncoder(json.dumps(whole, ensure_ascii=False), known)
    texts = _hard_texts(encoder)
    expected = encoder._by_transformers(texts)
    same = bare._plain(texts) == expected and all(
        bare.decode(ids) == encoder.decode(ids) for ids in expected
    )
    return bare if same else None
