"""Questions made from a KG alone: what people ask for relations that mean nearly the same.

The domains that the universal ranker was trained on have people's questions for some two thousand
relations, and for pairs of them. A relation of the KG borrows those of the nearest ones, as the
ranker itself sees them, and two relations in turn those of the nearest pair; asked about entities
of the KG, they teach it to tell *this* KG's relations apart. A part of the wordings is held out.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from kgqa.graph.files import write_whole
from kgqa.models.path_ranker import WEIGHTS_FILE, ranker_folder
from kgqa.paths.relation_paths import relation_paths
from kgqa.paths.words import TOPIC
from kgqa.training.ranker_domains import DOMAINS, Domain
from kgqa.training.ranker_questions import KgQuestion, kg_question

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from random import Random

    from numpy.typing import NDArray

    from kgqa.methods.rank_words import RankWords
    from kgqa.models.path_ranker import PathRanker
    from kgqa.paths.schema import Hop
    from kgqa.progress import Progress

_NEAREST = 3  # relations of the domains that a relation borrows from
_LIKE = 0.45  # cosine from which they are near
_RIVAL = 0.1  # how much nearer they may be to another relation of the KG
_TOPICS = 4  # entities that a relation is asked about
_MOST_TOPICS = 64  # entities in all, whatever the KG's size
_EACH = 2  # questions about each of a topic's relations
_PAIRS = 8  # relations in turn that a topic is asked about
_HELD_OUT = 4  # one of so many wordings
_TOGETHER = 256  # texts that are read at a time


@dataclass(frozen=True, slots=True)
class MadeQuestion:
    """A question about a topic entity, with ``{x}`` in its place, and its relation path.

    ``among``: all relation paths out of the topic; ``held_out``: its wording is not to learn from.
    """

    text: str
    topic: int
    steps: tuple[Hop, ...]
    among: tuple[tuple[Hop, ...], ...]
    held_out: bool

    def of_kg(self, words: RankWords, ranker: PathRanker) -> KgQuestion:
        """Return the question as a ranker is fitted to it."""
        asked = self.text.replace("{x}", TOPIC)
        return kg_question(words, ranker, asked, self.topic, self.among, [self.steps])


class Borrowed:
    """What people ask for relations of the domains, by how near these are to a KG's relations."""

    def __init__(self, words: RankWords, ranker: PathRanker, domains: Path, kept: Path | None,
                 progress: Progress) -> None:  # fmt: skip
        single: dict[str, list[str]] = {}
        pairs: dict[tuple[str, str], list[str]] = {}
        for file in sorted(domains.glob("*.json")):
            one, two = Domain(file).phrasings()
            single |= one
            pairs |= two
        place = {text: at for at, text in enumerate(single)}
        pairs = {pair: texts for pair, texts in pairs.items() if place.keys() >= set(pair)}
        self._single = list(single.values())
        self._pairs = list(pairs.values())
        of = np.array([[place[text] for text in pair] for pair in pairs], np.int64)
        self._first, self._second = of.reshape(-1, 2).T
        self._words = words
        self._hops = {hop: row for row, hop in enumerate(words.schema.hops())}
        theirs = _encoded(list(single), ranker, kept, progress)
        ours = ranker.encoder.encode([words.path([hop]) for hop in self._hops])
        self._cosine = ours @ theirs.T
        rival = self._cosine < self._cosine.max(axis=0, initial=-1.0) - _RIVAL
        self._cosine[rival] = -1.0

    def texts(self, steps: Sequence[Hop]) -> list[str]:
        """Return questions that ask for a relation, or for two in turn."""
        rows = [self._hops.get(hop, -1) for hop in steps]
        if min(rows) < 0 or len(rows) > 2:
            return []
        if len(rows) == 1:
            fit, every = self._cosine[rows[0]], self._single
            own = _phrased(self._words, steps[0])
        else:
            fit = np.minimum(
                self._cosine[rows[0], self._first], self._cosine[rows[1], self._second]
            )
            every, own = self._pairs, []
        near = np.argsort(-fit)[: _NEAREST if len(rows) == 1 else 1].tolist()
        found = (text for at in near if fit[at] > _LIKE for text in every[at])
        return list(dict.fromkeys((*own, *found)))


def made_questions(
    words: RankWords,
    ranker: PathRanker,
    random: Random,
    progress: Progress,
    kept: Path | None = None,
    domains: Path = DOMAINS,
) -> list[MadeQuestion]:
    """Return questions about the KG's relations; the same for the same KG. Raises GraphError.

    Those about one topic stand together. ``kept``: a folder where the vectors of the domains'
    relations are kept for the next time.
    """
    borrowed = Borrowed(words, ranker, domains, kept, progress)
    hops = [hop for hop in words.schema.hops() if borrowed.texts([hop])]
    random.shuffle(hops)  # of very many not all can be asked for
    asked: Counter[Hop] = Counter()
    found: dict[int, list[MadeQuestion]] = {}
    with progress.task("making questions", len(hops), "relations") as task:
        for hop in hops:
            topics = np.array(words.schema.topics(hop))
            for topic in topics[np.argsort(words.store.degrees(topics), kind="stable")].tolist():
                if asked[hop] >= _TOPICS or len(found) >= _MOST_TOPICS:
                    break
                if topic in found:
                    continue
                steps = relation_paths(words.store, topic, words.rules)[0].steps
                found[topic] = list(_about(topic, steps, borrowed, random))
                asked.update(one.steps[0] for one in found[topic] if len(one.steps) == 1)
            task.advance()
    return [one for each in found.values() for one in each]


def _about(
    topic: int, steps: tuple[tuple[Hop, ...], ...], borrowed: Borrowed, random: Random
) -> Iterator[MadeQuestion]:
    """Yield questions about each relation out of a topic, and some about two in turn."""
    pairs = [one for one in steps if len(one) == 2 and borrowed.texts(one)]
    single = [one for one in steps if len(one) == 1]
    for one in (*single, *random.sample(pairs, min(_PAIRS, len(pairs)))):
        texts = borrowed.texts(one)
        random.shuffle(texts)
        for held_out, most in ((False, _EACH), (True, 1)):
            some = [text for text in texts if _is_held_out(text) == held_out]
            for text in some[:most]:
                yield MadeQuestion(text, topic, one, steps, held_out)


def _is_held_out(text: str) -> bool:
    return crc32(text.encode()) % _HELD_OUT == 0


def _encoded(
    texts: Sequence[str], ranker: PathRanker, kept: Path | None, progress: Progress
) -> NDArray[np.float32]:
    """Return the vectors of ``texts``, from the folder ``kept`` if they are there."""
    file = None
    if kept is not None:
        weights = (ranker_folder(ranker.name) / WEIGHTS_FILE).read_bytes()
        digest = hashlib.sha256("\n".join((*texts, ranker.encoder.name)).encode() + weights)
        file = kept / f"phrasings-{digest.hexdigest()[:16]}.npy"
        with suppress(OSError, ValueError, EOFError):
            if (found := np.load(file)).shape == (len(texts), ranker.encoder.width):
                return found.astype(np.float32)
    parts = []
    with progress.task("reading what people ask", len(texts), "relations") as task:
        for start in range(0, len(texts), _TOGETHER):
            parts.append(ranker.encoder.encode(texts[start : start + _TOGETHER]))
            task.advance(len(parts[-1]))
    vectors = np.concatenate(parts).astype(np.float16)
    if file is not None:
        with suppress(OSError):  # the next time it is read again
            file.parent.mkdir(parents=True, exist_ok=True)
            content = BytesIO()
            np.save(content, vectors)
            write_whole(file, content.getvalue())
    return vectors.astype(np.float32)


def _phrased(words: RankWords, hop: Hop) -> list[str]:
    """Return questions by the further phrases of a relation, which the user or its schema has."""
    if hop[1] >= 0:
        return []
    more = words.every_phrase[hop[0] // 2][1:]
    return [f"what {phrase} {{x}}?" if hop[0] % 2 else f"{{x}} {phrase} what?" for phrase in more]
