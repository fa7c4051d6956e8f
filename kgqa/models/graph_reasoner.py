"""The graph reasoner: step attention over a question, relation scores, transitions.

After KG-CoT (IJCAI 2024, sec. 3.1) and TransferNet: at step t an attention over the question's
tokens gives ``q_t``, an MLP of it a score in 0..1 for each relation, and the scores of entities are
passed along edges times the score of their relation; ``beta`` says how many steps the question
takes. Four things are this project's: the whole question and the step go into the MLP beside
``q_t``, since the encoder is frozen; ``beta`` reads attentions over the tokens too, one for each
number of hops; a relation is read by its words, so that one that was never met is scored by what it
means; and it is one or two *parts* (the halves of a collapsed mediator), its logit the sum of
theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from kgqa.errors import AdapterMismatchError, ModelError
from kgqa.models.graph_reasoner_card import AGAIN, REASONERS, ReasonerCard
from kgqa.models.sentences import encoder_of_card, load_sentence_encoder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.progress import Progress

UNTRAINED = -100.0  # the logit of what was never trained, whatever its other half adds


class Reading(NamedTuple):
    """What a reasoner makes of questions: ``hidden`` ``[rows, hops, hidden]``, ``beta``.

    ``beta``, ``[rows, hops]``, sums to 1 over hops; ``log_beta`` is its logarithm.
    """

    hidden: Tensor
    beta: Tensor
    log_beta: Tensor


class Tables(NamedTuple):
    """A vector and a bias for each step in each place of a relation.

    ``first`` and ``second`` have shape ``[steps, hidden + 1]``, the bias in the last column; a step
    is ``2 * relation``, ``+ 1`` against its direction.
    """

    first: Tensor
    second: Tensor


class GraphReasoner(nn.Module):
    """The model of ``hops`` steps; ``width`` of the encoder's vectors, ``hidden`` units."""

    def __init__(self, hops: int, width: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.width, self.hidden = width, hidden
        self.query = nn.ModuleList(nn.Linear(width, width) for _ in range(hops))
        self.tokens = nn.LayerNorm(width)
        self.attended = nn.Linear(width, hidden)
        self.whole = nn.Linear(width, hidden)
        self.step = nn.Parameter(torch.zeros(hops, hidden))
        self.mixed = nn.Sequential(nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, hidden))
        self.length_query = nn.ModuleList(nn.Linear(width, width) for _ in range(hops))
        self.length = nn.Sequential(
            nn.Linear(width * (1 + hops), hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hops),
        )
        self.dropout = nn.Dropout(dropout)
        # for each place (first, second) and direction (along, against)
        self.words = nn.Parameter(torch.randn(2, 2, width, hidden) * width**-0.5)
        self.bias_of_words = nn.Parameter(torch.zeros(2, 2, width))
        self.bias = nn.Parameter(torch.zeros(2, 2))

    @torch.no_grad()
    def forget(self, seen: Tensor) -> None:
        """Make low what was never trained: ``seen`` ``[2, 2]`` are places and directions.

        A direction that never came up in a place has no meaning there, whatever the words.
        """
        for weight, low in ((self.words, 0.0), (self.bias_of_words, 0.0), (self.bias, UNTRAINED)):
            weight[~seen] = low

    def read(self, states: Tensor, there: Tensor, pooled: Tensor) -> Reading:
        """Return what the reasoner makes of questions.

        ``states`` ``[rows, tokens, width]`` are the tokens' states, ``there`` ``[rows, tokens]`` is
        True for a token, ``pooled`` ``[rows, width]`` the questions' own vectors.
        """
        states = self.tokens(states)
        pooled = pooled * self.width**0.5  # of length 1: units of the size that layers expect
        whole = self.whole(self.dropout(pooled))
        hidden = []
        for number, query in enumerate(self.query):
            attended = _attended(torch.tanh(query(pooled)), states, there)
            mixed = self.attended(self.dropout(attended)) + whole + self.step[number]
            hidden.append(self.mixed(mixed))
        heads = [
            self.dropout(_attended(torch.tanh(query(pooled)), states, there))
            for query in self.length_query
        ]
        log_beta = torch.log_softmax(self.length(torch.cat([pooled, *heads], dim=1)), dim=1)
        return Reading(torch.stack(hidden, dim=1), log_beta.exp(), log_beta)

    def tables(self, words: Tensor) -> Tables:
        """Return the steps' vectors; ``words`` ``[relations, width]`` are vectors of length 1."""
        words = words * self.width**0.5
        made = torch.einsum("rw,pdwh->prdh", words, self.words) * self.width**-0.5
        bias = torch.einsum("rw,pdw->prd", words, self.bias_of_words) + self.bias[:, None, :]
        both = torch.cat([made, bias.unsqueeze(-1)], dim=3).flatten(1, 2)
        return Tables(both[0], both[1])


def _attended(asked: Tensor, states: Tensor, there: Tensor) -> Tensor:
    """Return the mean of the tokens' states, weighed by how near each is to ``asked``."""
    score = torch.einsum("rtw,rw->rt", states, asked) * states.shape[2] ** -0.5
    weight = torch.softmax(score.masked_fill(~there, -torch.inf), dim=1)
    return torch.einsum("rt,rtw->rw", weight, states)


def relation_logits(hidden: Tensor, tables: Tables, first: Tensor, second: Tensor) -> Tensor:
    """Return the logit of each relation for each row, ``[rows, relations]``.

    ``hidden`` ``[rows, hidden]`` is of one step of the walk; ``first`` and ``second`` are steps,
    ``[relations]``, ``second`` -1 if a relation is one edge.
    """
    parts = tables.first[first] + tables.second[second.clamp(min=0)] * (second >= 0).unsqueeze(1)
    return hidden @ parts[:, :-1].T + parts[:, -1]


def transition(before: Tensor, source: Tensor, passed: Tensor, target: Tensor, size: int) -> Tensor:
    """Return the scores of entities after one step, ``[size]``.

    ``before`` are the scores of (row, entity) pairs; edge i goes from pair ``source[i]`` to pair
    ``target[i]`` of the ``size`` pairs after the step, and ``passed[i]`` is its relation's score.
    """
    moved = before[source] * passed
    return clamped(torch.zeros(size, dtype=moved.dtype).index_add(0, target, moved))


def clamped(scores: Tensor) -> Tensor:
    """Return ``scores``, those over 1 divided by their detached values."""
    return scores / scores.detach().clamp(min=1.0)


def walk_loss(
    scores: Tensor, wanted: Tensor, row: Tensor, rows: int, answer_weight: float
) -> Tensor:
    """Return the mean over questions of the weighed squared error over their neighbourhoods.

    ``scores`` and ``wanted`` (1 at answers) belong to pairs of a question ``row`` and an entity. An
    answer weighs ``answer_weight``, any other entity 1 (KG-CoT, sec. 3.1; the weights are those of
    the public programs of its family).
    """
    weight = torch.where(wanted > 0, answer_weight, 1.0)
    error = torch.zeros(rows).index_add(0, row, weight * (scores - wanted).square())
    total = torch.zeros(rows).index_add(0, row, weight)
    return (error / total.clamp(min=1.0)).mean()


def hop_loss(log_beta: Tensor, hops: Sequence[int]) -> Tensor:
    """Return the cross-entropy of the hop weights over rows whose ``hops`` are known (0: not)."""
    wanted = torch.tensor(hops) - 1
    known = (wanted >= 0) & (wanted < log_beta.shape[1])
    if not bool(known.any()):
        return log_beta.sum() * 0.0
    return nn.functional.nll_loss(log_beta[known], wanted[known])


def path_loss(logits: Tensor, right: Tensor) -> Tensor:
    """Return how far relations' ``logits`` are from what gold relation paths take at a step.

    Both are ``[rows, relations]``; ``right`` is True where the step takes the relation. The right
    ones are pulled above 0 and all others below, the hardest most. Unlike the walk's squared error
    it does not fade where a score is wrong and sure.
    """
    none = torch.zeros(len(logits), 1)
    away = torch.where(right, -torch.inf, logits)
    towards = torch.where(right, -logits, -torch.inf)
    parts = torch.logsumexp(torch.cat([none, away], dim=1), dim=1)
    parts = parts + torch.logsumexp(torch.cat([none, towards], dim=1), dim=1)
    return parts.mean()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LoadedReasoner:
    """A reasoner that is ready: its model in eval mode on the CPU, and what encodes questions."""

    name: str
    card: ReasonerCard
    model: GraphReasoner
    encoder: SentenceEncoder


def save_reasoner(folder: Path, model: GraphReasoner, card: ReasonerCard) -> None:
    """Write weights (float16) and card into ``folder``, which is made. Raises ModelError."""
    state = model.state_dict().items()
    REASONERS.save(folder, card, {name: tensor.numpy(force=True) for name, tensor in state})


def load_reasoner(
    name: str,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
    encoder: str | None = None,
) -> LoadedReasoner:
    """Load the reasoner of a folder or a bundled name, with its encoder.

    ``device``: where the encoder runs; the reasoner itself, a few small matrices, stays on the
    CPU. ``encoder``: what reads questions, if it is not known by its card. Raises what
    :meth:`ModelKind.card` raises, ModelError if the weights are damaged or do not fit the card,
    ModelNotFoundError if the encoder is not available.
    """
    folder = REASONERS.folder(name)
    card, tensors, _ = REASONERS.read(folder)
    model = GraphReasoner(card.hops, card.width, card.hidden)
    try:
        model.load_state_dict({name: torch.from_numpy(tensor) for name, tensor in tensors.items()})
    except RuntimeError:
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
    return LoadedReasoner(
        REASONERS.shown(folder), card, model.eval().requires_grad_(False), read_by
    )
