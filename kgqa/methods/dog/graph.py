"""The graph in the prompt: triplets near the topic entities that are similar to the question.

As DoG has it (arXiv 2410.18415): triplets are ranked by the cosine of their sentence embedding with
the question's and taken one by one, each with the triplets that connect it to a topic entity, until
a budget of triplets or of prompt tokens is full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.errors import EmptyLanguageError
from kgqa.paths.triplets import END, NO_TRIPLETS, lasting
from kgqa.trie.lexicon import names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.paths.format import PathFormat
    from kgqa.paths.triplets import StoreTriplets

CANDIDATES = 300  # triplets that are compared with the question
TRIPLETS = 120  # of the graph in the prompt, as in the paper
_MOST_EDGES = 2_000  # of an entity that is read; topic entities are, whatever they have
_MOST_READ = 50_000  # triplets of a neighbourhood
_AT_ONCE = 512  # entities that are read in one call
_KEPT = 50_000  # vectors that are remembered from one question to the next
_WORDS = str.maketrans(dict.fromkeys("._/^", " "))


@dataclass(frozen=True, slots=True)
class FilteredGraph:
    """The triplets for a prompt, the best first, each after those that lead to it.

    ``rows`` has shape ``[n, 5]`` (:mod:`kgqa.paths.triplets`), ``texts`` the text of each.
    """

    rows: IntArray
    texts: tuple[str, ...]
    notes: tuple[str, ...]

    def all_texts(self) -> tuple[str, ...]:
        """Return the distinct texts of the triplets."""
        return tuple(dict.fromkeys(self.texts))


class GraphFilter:
    """Selects triplets for prompts with a sentence encoder; for one thread.

    ``hops``: most hops between a topic entity and a triplet. ``cap``: triplets compared with the
    question; ``most``: triplets kept.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        form: PathFormat,
        *,
        hops: int = 2,
        cap: int = CANDIDATES,
        most: int = TRIPLETS,
    ) -> None:
        self.encoder = encoder
        self.form = form
        self.hops = hops
        self.cap = cap
        self.most = most
        self._vectors: dict[str, NDArray[np.float64]] = {}

    def graph(
        self,
        store: GraphStore,
        triplets: StoreTriplets,
        question: str,
        topics: IntArray,
        room: int,
        tokens_of: Callable[[Sequence[str]], list[int]],
    ) -> FilteredGraph:
        """Return the filtered graph for a question about ``topics`` (entity keys).

        ``room``: tokens available for it in the prompt; ``tokens_of``: returns the number of tokens
        of each text. Raises EmptyLanguageError if nothing touches a topic entity, GraphError.
        """
        rows, level, notes = neighbourhood(store, triplets, topics, self.hops)
        if not len(rows):
            raise EmptyLanguageError(
                "No triplet touches the topic entities.",
                "Name another `entity`, or look at this one with: kgqa paths ENTITY",
            )
        asked = self._encoded([question])[0]
        relations = self._relations(store, rows)
        if len(rows) > self.cap:
            near = (
                self._encoded([relation.translate(_WORDS).strip() for relation in relations])
                @ asked
            )
            best = np.lexsort((-near, level))[: self.cap]
            notes.append(
                f"{len(rows):,} triplets are within {self.hops} hops; {self.cap:,} were compared "
                "with the question: of fewer hops first, then of relations that are closer to it."
            )
            rows, level = rows[best], level[best]
            relations = [relations[row] for row in best.tolist()]
        heads, tails = (names_of(store, rows[:, column]) for column in (0, END))
        parts = list(zip(heads, relations, tails, strict=True))
        words = [" ".join(f"{h} {r.translate(_WORDS)} {t}".split()) for h, r, t in parts]
        scores = self._encoded(words) @ asked
        # one line whatever a name holds; grounding never reads it
        texts = [" ".join(self.form.path(h, [(r, t)]).split()) for h, r, t in parts]
        sizes = tokens_of([f" {text} |" for text in texts])
        kept = _chosen(rows, level, scores, texts, sizes, set(topics.tolist()), self.most, room)
        if not kept:
            raise EmptyLanguageError(
                f"No triplet of the topic entities fits into the {room} tokens that the prompt has "
                "left for the graph.",
                "Ask a shorter question, or use a model with a longer context.",
            )
        return FilteredGraph(rows[kept], tuple(texts[row] for row in kept), tuple(notes))

    def _relations(self, store: GraphStore, rows: IntArray) -> list[str]:
        """Return each triplet's relation as text, both halves of one through a mediator."""
        names = store.relations().names
        steps = rows[:, (1, 3)]
        distinct, number = np.unique(steps, axis=0, return_inverse=True)
        labels = [self.form.relation(first, second, names) for first, second in distinct.tolist()]
        return [labels[place] for place in number.reshape(-1).tolist()]

    def _encoded(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the vectors ``[n, width]`` of texts; new ones are encoded and remembered."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if len(self._vectors) + len(new) > _KEPT:
            self._vectors.clear()
            new = list(dict.fromkeys(texts))
        if new:
            self._vectors.update(zip(new, self.encoder.encode(new).astype(np.float64), strict=True))
        return np.stack([self._vectors[text] for text in texts])


def neighbourhood(
    store: GraphStore, triplets: StoreTriplets, topics: IntArray, hops: int
) -> tuple[IntArray, IntArray, list[str]]:
    """Return the triplets within ``hops`` hops of ``topics``, their distance, and notes.

    Shapes ``[n, 5]`` and ``[n]``; distances count from 1, each triplet is returned once. Notes list
    entities that were skipped because they have too many edges, and what was left when the limit
    was reached.
    """
    seen: set[tuple[int, ...]] = set()
    rows: list[IntArray] = []
    level: list[int] = []
    reached = frontier = np.unique(topics)
    hubs = unread = 0
    for hop in range(1, hops + 1):
        if hop > 1:
            degrees = store.degrees(frontier)
            hubs += int((degrees > _MOST_EDGES).sum())
            # those with few edges first: more entities are read before there are enough
            order = np.argsort(degrees, kind="stable")
            frontier = frontier[order][degrees[order] <= _MOST_EDGES]
        ends = []
        for start in range(0, len(frontier), _AT_ONCE):
            if hop > 1 and len(seen) >= _MOST_READ:
                unread += len(frontier) - start
                break
            for near in triplets.around(frontier[start : start + _AT_ONCE]):
                fresh = [row for row in map(tuple, near.tolist()) if row not in seen]
                seen.update(fresh)
                rows.append(np.array(fresh, np.int64).reshape(-1, near.shape[1]))
                level += [hop] * len(fresh)
                ends.append(rows[-1][:, (0, END)].ravel())
        if not ends or hop == hops:
            break
        frontier = np.setdiff1d(np.concatenate(ends), reached)
        frontier = frontier[lasting(store, frontier)]
        reached = np.union1d(reached, frontier)
    notes = []
    if hubs:
        notes.append(
            f"Not read for the prompt, since they have more than {_MOST_EDGES:,} edges: "
            f"{hubs:,} of the entities nearby."
        )
    if unread:
        notes.append(
            f"Not read for the prompt, since {_MOST_READ:,} triplets had been read: "
            f"{unread:,} of the entities nearby."
        )
    every = np.concatenate(rows) if rows else NO_TRIPLETS
    return every, np.array(level, np.int64), notes


def _chosen(
    rows: IntArray,
    level: IntArray,
    scores: NDArray[np.float64],
    texts: Sequence[str],
    sizes: Sequence[int],
    topics: set[int],
    most: int,
    room: int,
) -> list[int]:
    """Return the rows to keep, in order: the best, each after those that lead to it.

    ``level``: distance of each row; ``sizes``: tokens of each, which sum to at most ``room``. A row
    that does not fit with those before it is skipped; at most ``most`` are kept.
    """
    order = np.argsort(-scores, kind="stable").tolist()
    distance = dict.fromkeys(topics, 0)
    leads: dict[int, int] = {}  # of an entity, the best triplet that leads to it from a nearer one
    for row in sorted(order, key=lambda place: int(level[place])):
        head, tail, hop = int(rows[row, 0]), int(rows[row, END]), int(level[row])
        for near, far in ((head, tail), (tail, head)):
            if distance.get(near) == hop - 1 and far not in distance:
                distance[far] = hop
                leads[far] = row
    kept: dict[int, None] = {}
    written: set[str] = set()
    for row in order:
        needed = [row]
        at = min(
            (int(rows[row, 0]), int(rows[row, END])), key=lambda end: distance.get(end, 1 << 30)
        )
        while distance.get(at, 0):
            needed.append(leads[at])
            triplet = rows[leads[at]]
            at = int(triplet[END]) if int(triplet[0]) == at else int(triplet[0])
        fresh = [row for row in dict.fromkeys(reversed(needed)) if row not in kept]
        shown = dict.fromkeys(texts[row] for row in fresh if texts[row] not in written)
        size = sum({texts[row]: sizes[row] for row in fresh if texts[row] in shown}.values())
        if len(kept) + len(fresh) > most or size > room:
            continue
        kept.update(dict.fromkeys(fresh))
        written.update(shown)
        room -= size
        if len(kept) == most:
            break
    return list(kept)
