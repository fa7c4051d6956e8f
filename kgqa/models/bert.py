"""BERT's forward pass (arXiv 1810.04805) in numpy: a sentence encoder without torch.

A question that is answered by a small encoder is read in milliseconds, while importing torch and
transformers takes seconds. Texts are not padded: tokens of all are one matrix for the linear
layers, and attention is over texts of one length at a time.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_AT_ONCE_READ = 32  # weights of a file
_FEW = 64  # tokens: for more, turning the product costs more than it saves
_FEWEST = 24  # tokens of a question: up to as many, weights are multiplied in blocks
_BLOCK = 32  # rows of a weight that are multiplied at a time
_AT_ONCE = 1 << 14  # numbers of an activation that stay in the CPU's nearest cache


class _Layer(NamedTuple):
    """The weights and biases of one transformer layer."""

    mixing: tuple[tuple[Array, Array], ...]  # query (by the root of a head's size), key, value
    mixed: tuple[Array, Array]
    mixed_norm: tuple[Array, Array]
    wide: tuple[Array, Array]
    narrow: tuple[Array, Array]
    norm: tuple[Array, Array]


class Bert:
    """A BERT encoder that returns the hidden states of its last layer.

    Subclasses for related models override the names of weights, positions, and the attention bias.
    """

    kind: ClassVar[str] = "bert"  # the model_type in a config.json
    _prefix: ClassVar[str] = "bert."
    _words: ClassVar[str] = "embeddings.word_embeddings.weight"
    _positions: ClassVar[str] = "embeddings.position_embeddings.weight"
    _query_scale: np.float32 | None = None  # if the query's weights are not scaled already

    def __init__(self, config: Mapping[str, Any], weights: dict[str, Array]) -> None:
        self.width = int(config["hidden_size"])
        self._layer_count = int(config["num_hidden_layers"])
        self._heads = int(config["num_attention_heads"])
        self._epsilon = float(config.get("layer_norm_eps", 1e-12))
        self._weights = weights
        words, places = weights[self._words].shape, weights[self._positions].shape
        fit = words[1:] == places[1:] == (self.width,) and 0 < self._heads <= self.width
        if not fit or self.width % self._heads or not 0 <= self._epsilon < 1:
            raise ValueError("The sizes in its config.json are not those of its weights")
        self.vocabulary, self.longest = words[0], places[0]
        if self.states([[0, 0]]).shape != (2, self.width):  # or names a weight that is missing
            raise ValueError("Its weights have other shapes than those of a BERT")

    @classmethod
    def reads(cls, config: Mapping[str, Any], file: Path) -> bool:
        """Return whether this class can run the model of this ``config.json`` and weights file."""
        return (
            config.get("model_type") == cls.kind
            and config.get("hidden_act", "gelu") == "gelu"
            and config.get("position_embedding_type", "absolute") == "absolute"
            and not config.get("is_decoder")
            and file.is_file()
        )

    @classmethod
    def load(cls, config: Mapping[str, Any], file: Path) -> Self:
        """Load the weights from ``file``.

        Raises SafetensorError, OSError, KeyError, TypeError, ValueError.
        """
        from safetensors import safe_open

        with safe_open(file, framework="numpy") as stored:
            names = [name for name in stored.keys() if name.endswith((".weight", ".bias"))]  # noqa: SIM118
        weights = {}
        for start in range(0, len(names), _AT_ONCE_READ):  # what is mapped counts as memory, too
            with (
                safe_open(file, framework="numpy") as stored,
                np.errstate(over="ignore"),  # the result is checked
            ):
                for stated in names[start : start + _AT_ONCE_READ]:
                    name, weight = stated.removeprefix(cls._prefix), stored.get_tensor(stated)
                    # the words' vectors, most of which no text needs, stay in the file's precision
                    kept = name == cls._words and weight.dtype == np.float16
                    weights[name] = weight if kept else weight.astype(np.float32, copy=False)
        return cls(config, weights)

    def change(self, changes: Mapping[str, Array]) -> None:
        """Add ``changes`` to the weights with these names, in place where possible.

        Raises ValueError, before any change, for another name or shape.
        """
        for name, change in changes.items():
            if name not in self._weights or self._weights[name].shape != change.shape:
                raise ValueError(f"{name} is not a weight here, or has another shape")
        for name, change in changes.items():
            weight = self._weights[name]
            if weight.dtype == change.dtype and weight.flags.writeable:
                weight += change  # in place: large weights lie in memory once
            else:
                self._weights[name] = weight + change
        vars(self).pop("_layers", None)

    @np.errstate(all="ignore")  # of damaged weights: the caller checks the results
    def states(self, rows: Sequence[Sequence[int]]) -> Array:
        """Return the last hidden states of all tokens of ``rows``, joined: ``[tokens, width]``.

        Rows of one length that follow each other are read together.
        """
        lengths = [(length, len(list(same))) for length, same in groupby(map(len, rows))]
        state = self._weights[self._words][np.concatenate(rows)].astype(np.float32, copy=False)
        state = self._placed(state, rows, lengths)
        state = self._normed(state, self._pair("embeddings.LayerNorm"))
        for layer in self._layers:
            made = [_linear(state, pair) for pair in layer.mixing]
            mixed = self._attended(made[0] if len(made) == 1 else np.concatenate(made, 1), lengths)
            state = self._normed(state + _linear(mixed, layer.mixed), layer.mixed_norm)
            wide = _linear(state, layer.wide)
            gelu(wide)
            state = self._normed(state + _linear(wide, layer.narrow), layer.norm)
        return state

    def _placed(
        self, state: Array, rows: Sequence[Sequence[int]], lengths: Sequence[tuple[int, int]]
    ) -> Array:
        """Return the sum of word embeddings ``state``, position and token type embeddings.

        ``lengths``: (row length, number of rows) of each batch of equal rows.
        """
        position = np.concatenate([np.tile(np.arange(size), count) for size, count in lengths])
        state = state + self._weights[self._positions][position]
        state += self._weights["embeddings.token_type_embeddings.weight"][0]
        return state

    def _relative(self, length: int) -> Array | None:
        """Return the position bias of attention, ``[heads, length, length]``, None for no bias."""
        return None

    def _pair(self, name: str) -> tuple[Array, Array]:
        """Return the weight and the bias with this name."""
        return self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]

    @cached_property
    def _layers(self) -> list[_Layer]:
        """Return the weights of all layers, queries scaled for attention."""
        layers = []
        scale = np.float32((self.width / self._heads) ** -0.5)
        for number in range(self._layer_count):
            at = f"encoder.layer.{number}"
            parts = [
                self._pair(f"{at}.attention.self.{name}") for name in ("query", "key", "value")
            ]
            # scaled once at load instead of every score
            parts[0] = parts[0][0] * scale, parts[0][1] * scale
            weights, biases = zip(*parts, strict=True)
            layers.append(
                _Layer(
                    ((np.concatenate(weights), np.concatenate(biases)),),
                    self._pair(f"{at}.attention.output.dense"),
                    self._pair(f"{at}.attention.output.LayerNorm"),
                    self._pair(f"{at}.intermediate.dense"),
                    self._pair(f"{at}.output.dense"),
                    self._pair(f"{at}.output.LayerNorm"),
                )
            )
        return layers

    def _attended(self, made: Array, lengths: Sequence[tuple[int, int]]) -> Array:
        """Return the attention output of ``made``, joined query, key and value vectors.

        ``lengths``: (row length, number of rows) of each batch of equal rows.
        """
        mixed = np.empty((len(made), self.width), np.float32)
        start = 0
        for length, count in lengths:
            end = start + length * count
            shape = (count, length, 3, self._heads, self.width // self._heads)
            query, key, value = made[start:end].reshape(shape).transpose(2, 0, 3, 1, 4)
            if self._query_scale is not None:
                query = query * self._query_scale
            score = query @ key.swapaxes(-1, -2)
            if (relative := self._relative(length)) is not None:
                score += relative
            score -= score.max(-1, keepdims=True)
            np.exp(score, out=score)
            score /= score.sum(-1, keepdims=True)
            into = mixed[start:end].reshape(count, length, *shape[3:])
            into[...] = (score @ value).swapaxes(1, 2)
            start = end
        return mixed

    def _normed(self, state: Array, by: tuple[Array, Array]) -> Array:
        """Apply layer normalisation with the weight and bias ``by`` to ``state``, in place."""
        state -= state.mean(-1, keepdims=True)
        spread = np.einsum("tw,tw->t", state, state)[:, None] / np.float32(self.width)
        state /= np.sqrt(spread + np.float32(self._epsilon))
        state *= by[0]
        state += by[1]
        return state


def _linear(state: Array, by: tuple[Array, Array]) -> Array:
    """Return a linear layer of ``state``; ``by``: its weight and bias."""
    weight, bias = by
    if len(state) <= _FEWEST and not len(weight) % _BLOCK:
        # products this small are made without arranging the weights first, which takes longer
        made: Array = state @ weight.reshape(-1, _BLOCK, weight.shape[1]).swapaxes(1, 2)
        made = made.swapaxes(0, 1).reshape(len(state), -1)
    elif len(state) < _FEW:
        # the same sums: of a product the second factor takes longer to be arranged
        made = np.ascontiguousarray((weight @ state.T).T)
    else:
        made = state @ weight.T
    made += bias
    return made


# Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: off by 1.5e-7 at most
_P = np.float32(0.3275911 * math.sqrt(0.5))
_A = [np.float32(a) for a in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)]


def gelu(values: Array) -> None:
    """Apply the exact GELU, ``x * (1 + erf(x / sqrt(2))) / 2``, in place."""
    flat = values.reshape(-1)
    size, t, rest, tail = np.empty((4, min(_AT_ONCE, len(flat))), np.float32)
    for start in range(0, len(flat), _AT_ONCE):
        x = flat[start : start + _AT_ONCE]
        if len(x) < len(size):
            size, t, rest, tail = (part[: len(x)] for part in (size, t, rest, tail))
        np.abs(x, out=size)
        np.multiply(size, _P, out=t)
        t += np.float32(1)
        np.reciprocal(t, out=t)
        np.multiply(t, _A[0], out=rest)
        for factor in _A[1:]:
            rest += factor
            rest *= t
        np.multiply(x, x, out=tail)
        tail *= np.float32(-0.5)
        np.exp(tail, out=tail)
        rest *= tail
        np.subtract(np.float32(1), rest, out=rest)  # erf of the absolute value
        rest *= size
        x += rest
        x *= np.float32(0.5)
