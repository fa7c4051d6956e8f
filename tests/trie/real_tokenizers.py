"""Published vocabularies as tokenizers, read from their own files with nothing but `tokenizers`."""

from __future__ import annotations

import base64
import os
import struct
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from kgqa.models.tokenizer import HFEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHARED = Path(os.environ.get("KGQA_SHARED", Path(__file__).parents[3] / "shared"))
FOLDER = SHARED / "data" / "tokenizers"

# how each splits a text before its merges, as its publisher gives it
_SPLIT = {
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen1": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


@cache
def real_encoder(name: str) -> HFEncoder:
    """The encoder of ``gpt2``, ``llama2``, ``llama3`` or ``qwen1``; skips where it is absent."""
    folder = FOLDER / name
    if not folder.is_dir():
        pytest.skip(f"no ../shared/data/tokenizers/{name}: real vocabularies")
    if name == "gpt2":
        from transformers import GPT2Tokenizer

        return HFEncoder(GPT2Tokenizer.from_pretrained(folder))
    if name == "llama2":
        return HFEncoder(_sentencepiece(folder / "tokenizer.model"))
    (file,) = [path for path in folder.iterdir() if path.suffix in (".model", ".tiktoken")]
    return HFEncoder(_tiktoken(file, _SPLIT[name]))


def _merges(ranks: dict[Any, int]) -> Iterator[tuple[Any, Any]]:
    """Every way to make a piece of two others, the earliest piece first."""
    for piece in ranks:
        halves = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
        known = [half for half in halves if half[0] in ranks and half[1] in ranks]
        yield from sorted(known, key=lambda half: (ranks[half[0]], ranks[half[1]]))


def _tiktoken(file: Path, split: str) -> PreTrainedTokenizerFast:
    lines = (line.split() for line in file.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(piece): int(rank) for piece, rank in lines}
    printable = _byte_characters()
    vocab = {_as_text(piece, printable): rank for piece, rank in ranks.items()}
    merges = [(_as_text(a, printable), _as_text(b, printable)) for a, b in _merges(ranks)]
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>")


def _byte_characters() -> list[str]:
    """The printable character that byte-level vocabularies write each byte as."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in shown)
    moved = {byte: chr(256 + at) for at, byte in enumerate(others)}
    return [moved.get(byte, chr(byte)) for byte in range(256)]


def _as_text(piece: bytes, printable: Sequence[str]) -> str:
    return "".join(printable[byte] for byte in piece)


def with_spaces(vocab: dict[str, int], merges: list[tuple[str, str]]) -> PreTrainedTokenizerFast:
    """A BPE with byte fallback that puts a space before each text, in the way of Llama 2."""
    bpe = models.BPE(
        vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True
    )
    backend = Tokenizer(bpe)
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    strip = decoders.Strip(" ", 1, 0)
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), strip]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


def _sentencepiece(file: Path) -> PreTrainedTokenizerFast:
    vocab, scores = {}, {}
    for at, (piece, score, kind) in enumerate(_pieces(file.read_bytes())):
        vocab[piece] = at
        if kind == 1:  # normal: neither control, unknown nor byte
            scores[piece] = score
    ranked = {piece: vocab[piece] for piece in sorted(scores, key=lambda one: -scores[one])}
    return with_spaces(vocab, list(_merges(ranked)))


def _pieces(data: bytes) -> Iterator[tuple[str, float, int]]:
    """The (text, score, type) of each piece of a SentencePiece model: field 1 of the message."""
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            part = dict(_fields(value))
            [score] = struct.unpack("<f", part.get(2, b"\0\0\0\0"))
            yield part[1].decode(), score, part.get(3, 1)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a Protocol Buffers message: number and value."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            yield number, varint()
        else:
            size = {1: 8, 5: 4}[kind] if kind != 2 else varint()
            yield number, data[at : at + size]
            at += size
