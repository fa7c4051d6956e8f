"""The graph reasoner of KG-CoT: attention over a question, relation scores, transitions.

After KG-CoT (IJCAI 2024, sec. 3.1) and TransferNet: at step t an attention over the question's
tokens gives ``q_t``, an MLP of it a score in 0..1 for each relation, and the scores of entities are
passed along edges times the score of their relation; ``beta`` says how many steps the question
takes. Four things are this project's: the whole question and the step go into the MLP beside
``q_t``, since the encoder is frozen; ``beta`` reads attentions over the tokens too, one for each
number of hops; a relation is read by its words, so that one that was never met is scored by what it
means; and it is one or two *parts* (the halves of a collapsed mediator), its logit the sum of
theirs.

Here the model answers, in numpy. It is trained by :mod:`kgqa.models.graph_reasoner_torch`, which
computes the same with gradients; :class:`WalkMath` is what a walk needs of either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from kgqa.errors import AdapterMismatchError, ModelError
from kgqa.models.bert import gelu
from kgqa.models.graph_reasoner_card import AGAIN, REASONERS, ReasonerCard
from kgqa.models.sentences import encoder_of_card, load_sentence_encoder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.progress import Progress

    Array = NDArray[np.float32]
    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]

_EPSILON = np.float32(1e-5)  # of a layer norm, as torch has it


class EncodedQuestions(NamedTuple):
    """The reasoner's encoding of questions: ``hidden``, a vector for each hop, and hop weights.

    ``hidden`` ``[rows, hops, hidden]``; ``beta`` ``[rows, hops]`` sums to 1 over hops; ``log_beta``
    is its logarithm. Arrays of numpy, or tensors in training.
    """

    hidden: Any
    beta: Any
    log_beta: Any


class Tables(NamedTuple):
    """A vector and a bias for each step (relation and direction) at each place of a two-edge hop.

    ``first`` and ``second`` have shape ``[steps, hidden + 1]``, the bias in the last column; a step
    is ``2 * relation``, ``+ 1`` against its direction.
    """

    first: Any
    second: Any


class WalkMath(Protocol):
    """The arithmetic of a walk, over arrays of numpy or over tensors with gradients.

    An implementation must take indices as arrays of numpy, and :meth:`numbers` must cut gradients:
    a walk decides by numbers which edges it takes.
    """

    def ones(self, size: int) -> Any:
        """Return ``size`` ones."""

    def numbers(self, values: Any) -> Array:
        """Return values as an array of numpy."""

    def relation_scores(
        self, hidden: Any, tables: Tables, first: IntArray, second: IntArray
    ) -> Any:
        """Return the score, in 0..1, of each relation for each row, ``[rows, relations]``.

        ``hidden`` ``[rows, hidden]`` is of one hop of the walk; ``first`` and ``second``
        ``[relations]`` are steps (2 * relation, + 1 reversed), ``second`` -1 if a relation is one
        edge.
        """

    def masked(self, values: Any, keep: BoolArray) -> Any:
        """Return ``values``, 0 where not ``keep``."""

    def transition(
        self, before: Any, source: IntArray, passed: Any, target: IntArray, size: int
    ) -> Any:
        """Return the scores of entities after one hop, ``[size]``, none over 1.

        ``before`` are the scores of (row, entity) pairs; edge i goes from pair ``source[i]`` to
        pair ``target[i]`` of the ``size`` pairs after the hop, and ``passed[i]`` is its relation's
        score.
        """

    def weighed(self, parts: Sequence[Any], weights: Any, target: IntArray, size: int) -> Any:
        """Sum joined ``parts`` times ``weights`` by ``target``; shape ``[size]``, none over 1."""


class NumpyMath:
    """A :class:`WalkMath` over arrays of numpy."""

    def ones(self, size: int) -> Array:
        """Return ``size`` ones."""
        return np.ones(size, np.float32)

    def numbers(self, values: Array) -> Array:
        """Return values as they are."""
        return values

    def relation_scores(
        self, hidden: Array, tables: Tables, first: IntArray, second: IntArray
    ) -> Array:
        """Return the score of each relation for each row."""
        logits = relation_logits(hidden, tables, first, second)
        with np.errstate(over="ignore"):  # a low logit is the score 0
            scores: Array = np.float32(1) / (np.float32(1) + np.exp(-logits))
        return scores

    def masked(self, values: Array, keep: BoolArray) -> Array:
        """Return ``values``, 0 where not ``keep``."""
        return np.where(keep, values, np.float32(0))

    def transition(
        self, before: Array, source: IntArray, passed: Array, target: IntArray, size: int
    ) -> Array:
        """Return the scores of entities after one hop, none over 1."""
        return _summed(before[source] * passed, target, size)

    def weighed(self, parts: Sequence[Array], weights: Array, target: IntArray, size: int) -> Array:
        """Sum joined ``parts`` times ``weights`` by ``target``."""
        return _summed(np.concatenate(parts) * weights, target, size)


def relation_logits(hidden: Array, tables: Tables, first: IntArray, second: IntArray) -> Array:
    """Return each relation's logit for each row; see :meth:`WalkMath.relation_scores`."""
    other = tables.second[np.maximum(second, 0)] * (second >= 0)[:, None]
    parts: Array = tables.first[first] + other
    logits: Array = hidden @ parts[:, :-1].T + parts[:, -1]
    return logits


def _summed(values: Array, target: IntArray, size: int) -> Array:
    """Return the sums of ``values`` by ``target``, ``[size]``, cut at 1."""
    summed = np.bincount(target, values, size).astype(np.float32)
    return np.minimum(summed, np.float32(1))


class GraphReasoner:
    """A trained graph reasoner: a card and its ``tensors``. Raises ModelError for a mismatch."""

    def __init__(self, card: ReasonerCard, tensors: Mapping[str, Array]) -> None:
        hops, width, hidden = card.hops, card.width, card.hidden
        self.hops, self.width, self.hidden = hops, width, hidden
        layers = {
            **{f"query.{hop}": (width, width) for hop in range(hops)},
            **{f"length_query.{hop}": (width, width) for hop in range(hops)},
            "attended": (hidden, width),
            "whole": (hidden, width),
            "mixed.2": (hidden, hidden),
            "length.0": (hidden, width * (1 + hops)),
            "length.3": (hops, hidden),
        }
        shapes: dict[str, tuple[int, ...]] = {
            "tokens.weight": (width,),
            "tokens.bias": (width,),
            "step": (hops, hidden),
            "words": (2, 2, width, hidden),
            "bias_of_words": (2, 2, width),
            "bias": (2, 2),
        }
        for name, shape in layers.items():
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        if {name: tensor.shape for name, tensor in tensors.items()} != shapes:
            raise ModelError("The weights are not of the reasoner that its card describes.", AGAIN)
        self.tensors = {
            name: np.ascontiguousarray(tensor, np.float32) for name, tensor in tensors.items()
        }

    def read(self, states: Array, there: BoolArray, pooled: Array) -> EncodedQuestions:
        """Encode questions to a vector for each hop, and hop weights.

        ``states`` ``[rows, tokens, width]`` are the tokens' states, ``there`` ``[rows, tokens]`` is
        True for a token, ``pooled`` ``[rows, width]`` the questions' own vectors.
        """
        mean = states.mean(2, keepdims=True)
        spread = states.var(2, keepdims=True)
        states = (states - mean) / np.sqrt(spread + _EPSILON)
        states = states * self.tensors["tokens.weight"] + self.tensors["tokens.bias"]
        pooled = pooled * np.float32(self.width**0.5)  # of length 1: of the size layers expect
        whole = self._linear("whole", pooled)
        hidden = []
        for hop in range(self.hops):
            attended = self._attended(f"query.{hop}", pooled, states, there)
            mixed = self._linear("attended", attended) + whole + self.tensors["step"][hop]
            gelu(mixed)
            hidden.append(self._linear("mixed.2", mixed))
        heads = [
            self._attended(f"length_query.{hop}", pooled, states, there) for hop in range(self.hops)
        ]
        inner = self._linear("length.0", np.concatenate([pooled, *heads], 1))
        gelu(inner)
        log_beta = log_softmax(self._linear("length.3", inner))
        return EncodedQuestions(np.stack(hidden, 1), np.exp(log_beta), log_beta)

    def tables(self, words: Array) -> Tables:
        """Return the vectors of all steps (2 * relation, + 1 reversed).

        ``words`` ``[relations, width]``: the relations' unit vectors.
        """
        words = words * np.float32(self.width**0.5)
        made = [self._steps(words, place) for place in range(2)]
        return Tables(*made)

    def _steps(self, words: Array, place: int) -> Array:
        """Return vectors ``[2 * relations, hidden + 1]`` of steps: 2 * relation, + 1 reversed.

        ``place``: 0 for the first step of a hop, 1 for the second.
        """
        both = np.empty((len(words), 2, self.hidden + 1), np.float32)
        for direction in range(2):
            at = place, direction
            weights = self.tensors["words"][at] * np.float32(self.width**-0.5)
            both[:, direction, :-1] = words @ weights
            bias = words @ self.tensors["bias_of_words"][at] + self.tensors["bias"][at]
            both[:, direction, -1] = bias
        return both.reshape(2 * len(words), self.hidden + 1)

    def _linear(self, name: str, values: Array) -> Array:
        """Apply the linear layer with this name."""
        made: Array = values @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]
        return made

    def _attended(self, query: str, pooled: Array, states: Array, there: BoolArray) -> Array:
        """Return the average of token states by attention with the learnt layer ``query``.

        ``there``: True for a token, False for padding.
        """
        asked = np.tanh(self._linear(query, pooled))
        score = np.einsum("rtw,rw->rt", states, asked) * np.float32(self.width**-0.5)
        weight = np.exp(log_softmax(np.where(there, score, np.float32(-np.inf))))
        attended: Array = np.einsum("rt,rtw->rw", weight, states)
        return attended


def log_softmax(values: Array) -> Array:
    """Return the log-softmax over the last axis."""
    values = values - values.max(-1, keepdims=True)
    made: Array = values - np.log(np.exp(values).sum(-1, keepdims=True))
    return made


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LoadedReasoner:
    """A reasoner with the sentence encoder of its questions."""

    name: str
    card: ReasonerCard
    model: GraphReasoner
    encoder: SentenceEncoder


def load_reasoner(
    name: str,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
    encoder: str | None = None,
) -> LoadedReasoner:
    """Load a reasoner from a folder or by a bundled name, with its encoder.

    ``device``: of the encoder; the reasoner itself, a few small matrices, stays on the CPU.
    ``encoder``: the sentence encoder, if the card names no known one. Errors of
    :meth:`ModelKind.card` propagate; raises ModelError if the weights are damaged or do not fit the
    card, ModelNotFoundError if the encoder is not available.
    """
    folder = REASONERS.folder(name)
    card, tensors, _ = REASONERS.read(folder)
    try:
        model = GraphReasoner(card, tensors)
    except ModelError:
        raise ModelError(
            f"The weights {folder / card.weights} are not of the reasoner that its card describes.",
            AGAIN,
        ) from None
    chosen = encoder_of_card(card.encoder, encoder, folder)
    read_by = load_sentence_encoder(chosen, device=device, cache=cache, progress=progress)
    if read_by.width != card.width:
        raise AdapterMismatchError(
            f"The reasoner {folder} was trained with vectors of {card.width} numbers; the encoder "
            f"{read_by.name} gives {read_by.width}.",
            f"Use the encoder it was trained with. {AGAIN}",
        )
    return LoadedReasoner(REASONERS.shown(folder), card, model, read_by)
