"""The path ranker: scores how well relation paths, in words, fit a question.

A sentence encoder reads the question, its topic entity's name taken out, and each relation path in
words (:func:`kgqa.paths.words.relation_path_text`); a path's logit is the cosine of the two times a
scale, plus a bias for its number of hops. One more logit stands for "none of them", so that a
question which the graph cannot answer belongs to no path. The encoder is trained by low-rank
changes of its weights (LoRA, arXiv 2106.09685) with a softmax over all relation paths out of the
topic; with no changes it is the plain similarity of words. What is learnt from one KG is a *head*:
a low-rank change of the vectors themselves, so that texts need to be read only once to fit it.

A ranker may also know relations that other KGs have, as vectors of the same encoder: a question
that fits one of these better than anything in the KG asks for what the KG does not say.

A ranker on disk is a folder with ``ranker.json``, its card, and ``ranker.safetensors``.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from kgqa.errors import ModelError
from kgqa.models.folders import BUNDLED, CONFIG, ModelKind, WeightsName, suits
from kgqa.models.kept_vectors import KeptVectors
from kgqa.models.large_encoder import large_is_installed
from kgqa.models.sentences import encoder_of_card, load_sentence_encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kgqa.models.folders import Changes
    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.progress import Progress

UNIVERSAL, LARGE_RANKER = "universal", "large"  # by the size of their encoder
OWN_RANKER = Path("models") / "ranker"  # in a KG's folder
CARD_FILE = "ranker.json"
FORMAT_VERSION = 2
_MOST_KEPT = 150_000_000  # bytes of texts' vectors in memory, and as many with the head
HEAD = "head"  # stands among the changes of weights
SAME_RELATION = 0.6  # cosine from which one says the other in other words
_ELSEWHERE = "elsewhere"  # the tensor of relations that other KGs have
_AGAIN = "Train it again with `kgqa learn`."

_AtLeastOne = Annotated[int, Field(ge=1)]
_Logit = Annotated[float, Field(ge=-1_000, le=1_000, strict=False)]  # which float32 still holds
_Factor = Annotated[float, Field(ge=0.001, le=1_000, strict=False)]


@dataclass(frozen=True, slots=True, kw_only=True, config=CONFIG)
class RankerCard:
    """A path ranker's training data and calibration.

    Invalid fields raise pydantic's ValidationError. ``hop_bias``: added to the logit of a path of
    1, 2, … hops; the last one applies to longer ones. ``none``: the logit of "none of them".
    ``temperature``: divides logits, so that probabilities are calibrated. ``refuse_above``: the
    probability of no answer from which none is given.

    ``lacking``: weights of the log-odds that the graph has no answer: the logit of the missing
    relation against the best path, the advantage (-3 to 6) of a relation that similar entities
    have, a requested noun that the path lacks; then a constant. ``refusal``: slope and shift from
    these log-odds to the probability that no answer is right. ``evidence``: weights of the log-odds
    that an answer is right: its own log-odds, its lead, the words it explains, conditions met; then
    a constant.
    """

    encoder: Annotated[str, Field(min_length=1)]
    hops: _AtLeastOne = 2
    scale: _Factor = 14.0
    hop_bias: Annotated[tuple[_Logit, ...], Field(min_length=1, strict=False)] = (0.0, -1.4)
    none: _Logit = 0.0
    temperature: _Factor = 1.0
    refuse_above: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.88
    lacking: Annotated[tuple[_Logit, _Logit, _Logit, _Logit], Field(strict=False)] = (
        1.0, 0.0, 0.0, 0.0,
    )  # fmt: skip
    refusal: Annotated[tuple[_Logit, _Logit], Field(strict=False)] = (1.0, 0.0)
    evidence: Annotated[tuple[_Logit, _Logit, _Logit, _Logit, _Logit], Field(strict=False)] = (
        0.36, 0.30, 3.1, 1.8, -0.09,
    )  # fmt: skip
    # relations of the KG that it was trained for, or what stands before their first dot; () any
    calibrated_on: Annotated[tuple[str, ...], Field(strict=False)] = ()
    extends: Annotated[str, Field(pattern=r"^[\w-]{0,80}$")] = (
        ""  # the bundled ranker whose changes come before its own; "" none
    )
    described: dict[str, Any] = Field(default_factory=dict)  # data, settings, figures
    weights: WeightsName = "ranker.safetensors"
    format_version: int = FORMAT_VERSION


RANKERS = ModelKind(
    "path ranker",
    RankerCard,
    CARD_FILE,
    FORMAT_VERSION,
    BUNDLED / "rankers",
    again=_AGAIN,
    files=f"{CARD_FILE} and weights, as `kgqa learn` writes them",
    older={1: lambda card: {k: v for k, v in card.items() if k != "head_refuses"}},
)


class _Vectors:
    """Vectors by text: ``rows`` maps each text to its row of ``array``.

    ``era`` is another object whenever all are forgotten: rows of another one mean nothing.
    """

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.array: NDArray[np.float32] = np.empty((0, 0), np.float32)
        self.era = object()

    def add(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Add the vectors of ``texts``, none of which has one yet."""
        count = len(self.rows)
        every = count + len(texts)
        if every > len(self.array):
            longer = np.empty((max(2 * count, every), vectors.shape[1]), np.float32)
            if count:
                longer[:count] = self.array[:count]
            self.array = longer
        self.array[count:every] = vectors
        self.rows.update(zip(texts, range(count, every), strict=True))

    def clear(self) -> None:
        """Forget all vectors."""
        self.rows.clear()
        self.era = object()


class _Changed:
    """The vectors of ``of`` with a head applied to each once; for one head."""

    def __init__(self, of: _Vectors, head: object) -> None:
        self.of, self.head, self.era = of, head, of.era
        self._count = 0  # of vectors that the head was applied to
        self._array: NDArray[np.float32] = np.empty((0, 0), np.float32)

    def array(
        self, apply: Callable[[NDArray[np.float32]], NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        """Return the changed vectors, as many rows as ``of`` has; ``apply`` changes new ones."""
        new = self.of.array[self._count : len(self.of.rows)]
        if len(self._array) < len(self.of.array):  # it grows as that one does
            longer = np.empty_like(self.of.array)
            if self._count:
                longer[: self._count] = self._array[: self._count]
            self._array = longer
        if len(new):
            self._array[self._count : self._count + len(new)] = apply(new)
            self._count += len(new)
        return self._array


@dataclasses.dataclass(slots=True, weakref_slot=True)
class PathRanker:
    """A loaded path ranker that remembers vectors of texts; for one thread.

    ``head``: low-rank factors ``[rank, width]`` and ``[width, rank]`` added to vectors.
    ``elsewhere``: vectors of relations that other KGs have, ``[n, width]``, without the head.
    """

    name: str
    card: RankerCard
    encoder: SentenceEncoder
    head: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
    elsewhere: NDArray[np.float32] | None = None
    _kept: _Vectors = dataclasses.field(default_factory=_Vectors)  # without the head
    _changed: tuple[object, object, Any] = (None, None, None)  # a head, ``elsewhere``, both
    _headed: _Changed | None = None  # ``_kept`` with the head

    def logits(
        self,
        questions: Sequence[str],
        paths: Sequence[str],
        hops: Sequence[int],
        kept: KeptVectors | None = None,
    ) -> NDArray[np.float32]:
        """Return the logit of each path for each question, ``[len(questions), len(paths)]``.

        ``questions``: without their topic's name; ``paths``: in words; ``hops``: of each path;
        ``kept``: the KG's cache of path vectors, as for :meth:`vectors`.
        """
        return self.scaled(self.vectors(questions) @ self.vectors(paths, kept).T, hops)

    def logits_at(
        self, question: NDArray[np.float32], rows: Sequence[int], hops: Sequence[int]
    ) -> NDArray[np.float32]:
        """Return the logit of each path for a question, ``[len(rows)]``.

        ``question``: its vector, ``[1, width]``; ``rows``: where :meth:`at` finds the paths';
        ``hops``: of each path.
        """
        return self.scaled((question @ self.at(rows).T)[0], hops)

    def keep_in(self, folder: Path) -> KeptVectors:
        """Return the vector cache in a KG's ``folder``."""
        encoder = re.sub(r"\W+", "-", f"{self.name}-{self.encoder.name}")[-80:]
        return KeptVectors(folder / f"vectors-{encoder}.sqlite", self.encoder.encode)

    def scaled(self, cosine: NDArray[np.float32], hops: Sequence[int]) -> NDArray[np.float32]:
        """Convert cosines ``[…, len(hops)]`` of paths with ``hops`` hops to logits."""
        card = self.card
        bias = np.array(card.hop_bias, np.float32)
        by_path = bias[np.minimum(np.array(hops, np.int64), len(bias)) - 1]
        logits: NDArray[np.float32] = (card.scale * cosine + by_path) / card.temperature
        return logits

    def logit_elsewhere(self, question: str, paths: Sequence[str] = ()) -> float:
        """Return the logit of the best relation that only other KGs have; -inf if none is known.

        Relations that mean nearly the same as one of ``paths`` are ignored.
        """
        if self.elsewhere is None:
            return -np.inf
        head, plain, elsewhere = self._changed
        if head is not self.head or plain is not self.elsewhere:
            elsewhere = self._with_head(self.elsewhere)
            self._changed = self.head, self.elsewhere, elsewhere
        cosine = elsewhere @ self.vectors([question])[0]
        cosine[
            (elsewhere @ self.vectors(paths).T).max(axis=1, initial=-1.0) >= SAME_RELATION
        ] = -1.0
        return float(self.scaled(cosine.max(keepdims=True), [1])[0])

    @property
    def none(self) -> float:
        """The logit of the option that no path fits."""
        return self.card.none / self.card.temperature

    def vectors(self, texts: Sequence[str], kept: KeptVectors | None = None) -> NDArray[np.float32]:
        """Return the unit vector of each text, ``[len(texts), width]``.

        ``kept``: a KG's vector cache, which holds vectors without the head.
        """
        if not texts:
            return np.zeros((0, self.encoder.width), np.float32)
        return self.at(self.rows(texts, kept))

    @property
    def era(self) -> object:
        """Another object whenever all texts are forgotten, and with them what :meth:`rows` said."""
        return self._kept.era

    def rows(self, texts: Sequence[str], kept: KeptVectors | None = None) -> list[int]:
        """Return where :meth:`at` finds the vector of each text; new texts are encoded.

        ``kept`` as for :meth:`vectors`. All other texts are forgotten if there are too many.
        """
        known = self._kept
        new = list(dict.fromkeys(text for text in texts if text not in known.rows))
        if (len(known.rows) + len(new)) * self.encoder.width * 4 > _MOST_KEPT:
            known.clear()
            new = list(dict.fromkeys(texts))
        if new:
            known.add(new, self.encoder.encode(new) if kept is None else kept.vectors(new))
        return [known.rows[text] for text in texts]

    def at(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Return the unit vectors in some ``rows`` of the present era, ``[len(rows), width]``."""
        if self.head is None:
            return self._kept.array[rows]
        headed = self._headed
        if headed is None or headed.head is not self.head or headed.era is not self.era:
            headed = self._headed = _Changed(self._kept, self.head)
        return headed.array(self._with_head)[rows]

    def _with_head(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add the head's low-rank change and normalise; without a head return the vectors."""
        if self.head is None:
            return vectors
        down, up = self.head
        changed = vectors + vectors @ down.T @ up.T
        normed: NDArray[np.float32] = changed / np.linalg.norm(changed, axis=1, keepdims=True)
        return normed


def universal_ranker(encoder: str | None, cache: Path) -> str:
    """Return the name of the ranker for any KG.

    ``encoder``: "large", "small", or None: the large one if it is installed in ``cache``.
    """
    large = large_is_installed(cache) if encoder is None else encoder == "large"
    return LARGE_RANKER if large else UNIVERSAL


def suited_ranker(
    relations: Sequence[str], kg_folder: Path | None = None, universal: str = UNIVERSAL
) -> str:
    """Return the ranker that fits a KG with these ``relations`` best.

    In this order: the KG's own in ``kg_folder``, a bundled one trained on such relations,
    ``universal``. Errors of :meth:`ModelKind.card` propagate.
    """
    if kg_folder is not None and (own := own_ranker(kg_folder)):
        return str(own)
    for name in RANKERS.names():
        known = RANKERS.card(RANKERS.bundled / name).calibrated_on
        if relations and known and suits(known, relations):
            return name
    return universal


def own_ranker(kg_folder: Path) -> Path | None:
    """Return the folder of the ranker trained for this KG, None if there is none."""
    folder = kg_folder / OWN_RANKER
    return folder if (folder / CARD_FILE).is_file() else None


def load_path_ranker(
    name: str,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
    encoder: str | None = None,
) -> PathRanker:
    """Load a ranker from a folder or by a bundled name, with its encoder.

    ``encoder``: the sentence encoder, if the card names no known one. Raises ModelNotFoundError if
    there is none, ModelError if card or weights cannot be used, AdapterMismatchError if the card
    has another version.
    """
    folder = RANKERS.folder(name)
    card = RANKERS.card(folder)
    known, elsewhere = _read(name)
    changes = dict(known)
    head = changes.pop(HEAD, None)
    chosen = encoder_of_card(card.encoder, encoder, folder)
    read_by = load_sentence_encoder(chosen, device=device, cache=cache, progress=progress)
    try:
        sizes = set() if head is None else {head[0].shape[1:], head[1].shape[:1]}
        sizes |= set() if elsewhere is None else {elsewhere.shape[1:]}
        if sizes - {(read_by.width,)}:
            raise ValueError(HEAD)
        with np.errstate(all="ignore"):  # the encoder checks the results
            for name, (down, up) in changes.items():  # one at a time: together they are as large
                read_by.change({name: up @ down})
    except (ValueError, RuntimeError):
        raise ModelError(
            f"The weights {folder / card.weights} are not of the encoder {read_by.name}.", _AGAIN
        ) from None
    return PathRanker(RANKERS.shown(folder), card, read_by, head, elsewhere)


def save_path_ranker(
    folder: Path,
    card: RankerCard,
    changes: Changes,
    elsewhere: NDArray[np.float32] | None = None,
) -> None:
    """Write a ranker into ``folder`` as :meth:`ModelKind.save` does.

    ``changes``: of the encoder's weights, and of the head under the name ``HEAD``. ``elsewhere``:
    see :class:`PathRanker`; stored as 8-bit integers.
    """
    state: dict[str, NDArray[Any]] = {}
    if elsewhere is not None:
        most = np.abs(elsewhere).max(axis=1, keepdims=True)
        state[_ELSEWHERE] = np.round(elsewhere / most * 127).astype(np.int8)
    RANKERS.save(folder, card, state, changes)


def ranker_changes(name: str) -> Changes:
    """Return a ranker's changes of its encoder's weights, as :func:`save_path_ranker` takes them.

    Errors of :func:`load_path_ranker` propagate.
    """
    return _read(name)[0]


def relations_elsewhere(name: str) -> NDArray[np.float32] | None:
    """Return the encoder vectors of relations of other KGs that a ranker knows, None for none.

    A ranker that adds only a head shares those of the ranker it extends. Errors of
    :func:`load_path_ranker` propagate.
    """
    return _read(name)[1]


def _read(name: str) -> tuple[Changes, NDArray[np.float32] | None]:
    """Read a ranker's changes and relations of other KGs, with those of the ranker it extends.

    The relations are unit vectors, None if it knows none.
    """
    card, state, changes = RANKERS.read(RANKERS.folder(name))
    elsewhere = state.get(_ELSEWHERE)
    if elsewhere is not None:
        length: NDArray[np.float32] = np.linalg.norm(elsewhere, axis=1, keepdims=True)
        elsewhere = elsewhere / length
    if not card.extends:
        return changes, elsewhere
    before, known = _read(str(RANKERS.bundled / card.extends))  # never a folder of that name
    if elsewhere is None and set(changes) <= {HEAD}:
        elsewhere = known
    return {**before, **changes}, elsewhere
