"""Questions made from a KG alone: what people ask for relations that mean nearly the same.

The domains that the universal ranker was trained on have people's questions for some two thousand
relations. A relation of the KG borrows those of the nearest ones, as the ranker itself sees them;
asked about entities of the KG, they teach it to tell *this* KG's relations apart. Those that it
finds unlikely are left out: mostly they ask for something else. A part of the wordings is held out.
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
from kgqa.models.path_ranker import ranker_folder
from kgqa.paths.relation_paths import relation_paths
from kgqa.paths.words import TOPIC
from kgqa.training.domains import DOMAINS, Domain
from kgqa.training.ranker_questions import kg_question

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from random import Random

    from numpy.typing import NDArray

    from kgqa.methods.rank_words import RankWords
    from kgqa.models.path_ranker import PathRanker
    from kgqa.paths.schema import Hop
    from kgqa.progress import Progress
    from kgqa.training.ranker_questions import KgQuestion

_NEAREST = 3  # relations of the domains that a relation borrows from
_LIKE = 0.45  # cosine from which they are near
_RIVAL = 0.1  # how much nearer they may be to another relation of the KG
_TOPICS = 4  # entities that a relation is asked about
_MOST_TOPICS = 64  # entities in all, whatever the KG's size
_EACH = 2  # questions about each of a topic's relations
_HELD_OUT = 4  # one of so many wordings
_TOGETHER = 256  # texts that are read at a time


@dataclass(frozen=True, slots=True)
class MadeQuestion:
    """A question about a topic entity, with ``{x}`` in its place, and the relation it asks for.

    ``among``: all relation paths out of the topic; ``held_out``: its wording is not to learn from.
    """

    text: str
    topic: int
    hop: Hop
    among: tuple[tuple[Hop, ...], ...]
    held_out: bool

    def of_kg(self, words: RankWords, ranker: PathRanker) -> KgQuestion:
        """Return the question as a ranker is fitted to it."""
        return kg_question(words, ranker, self._asked, self.topic, self.among, [(self.hop,)])

    def of_relations(self, words: RankWords, ranker: PathRanker) -> KgQuestion:
        """Return the question with the relations of its topic alone, no longer paths."""
        return kg_question(words, ranker, self._asked, self.topic, self._single(), [(self.hop,)])

    def without_answer(self, words: RankWords, ranker: PathRanker, group: int) -> KgQuestion:
        """Return the same as if its topic had not the relation; ``group`` stands for the topic."""
        others = [steps for steps in self._single() if steps[0] != self.hop]
        return kg_question(words, ranker, self._asked, group, others, [])

    def _single(self) -> list[tuple[Hop, ...]]:
        return [steps for steps in self.among if len(steps) == 1]

    @property
    def _asked(self) -> str:
        return self.text.replace("{x}", TOPIC)


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
    texts = _borrowed(words, ranker, domains, kept, progress)
    hops = list(texts)
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
                own = [one[0] for one in steps if len(one) == 1 and one[0] in texts]
                asked.update(own)
                found[topic] = [
                    MadeQuestion(text, topic, one, steps, held_out)
                    for one in own
                    for held_out in (False, True)
                    for text in _some(texts[one], held_out, random)
                ]
            task.advance()
    return [one for each in found.values() for one in each]


def _borrowed(
    words: RankWords, ranker: PathRanker, domains: Path, kept: Path | None, progress: Progress
) -> dict[Hop, list[str]]:
    """Return of the KG's relations what people ask for the nearest ones of the domains."""
    phrasings = [one for file in sorted(domains.glob("*.json")) for one in Domain(file).phrasings()]
    theirs = _encoded([text for text, _ in phrasings], ranker, kept, progress)
    hops = words.schema.hops()
    cosine = ranker.vectors([words.path([hop]) for hop in hops]) @ theirs.T
    rival = cosine < cosine.max(axis=0, initial=-1.0) - _RIVAL
    cosine[rival] = -1.0
    found = {}
    for hop, row in zip(hops, cosine, strict=True):
        near = [at for at in np.argsort(-row)[:_NEAREST].tolist() if row[at] > _LIKE]
        texts = [*phrased(words, hop), *(text for at in near for text in phrasings[at][1])]
        if texts:
            found[hop] = list(dict.fromkeys(texts))
    return found


def _some(texts: Sequence[str], held_out: bool, random: Random) -> list[str]:
    """Return some of ``texts``, of those to learn from or of those that are held out."""
    fit = [text for text in texts if (crc32(text.encode()) % _HELD_OUT == 0) == held_out]
    return random.sample(fit, min(1 if held_out else _EACH, len(fit)))


def _encoded(
    texts: Sequence[str], ranker: PathRanker, kept: Path | None, progress: Progress
) -> NDArray[np.float32]:
    """Return the vectors of ``texts``, from the folder ``kept`` if they are there."""
    file = None
    if kept is not None:
        weights = (ranker_folder(ranker.name) / ranker.card.weights).read_bytes()
        digest = hashlib.sha256("\n".join((*texts, ranker.encoder.name)).encode() + weights)
        file = kept / f"phrasings-{digest.hexdigest()[:16]}.npy"
        with suppress(OSError, ValueError, EOFError):
            if (found := np.load(file)).shape == (len(texts), ranker.encoder.width):
                known: NDArray[np.float32] = found.astype(np.float32)
                return known
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


def phrased(words: RankWords, hop: Hop) -> list[str]:
    """Return questions by the further phrases of a relation, which the user or its schema has."""
    if hop[1] >= 0:
        return []
    more = words.every_phrase[hop[0] // 2][1:]
    return [f"what {phrase} {{x}}?" if hop[0] % 2 else f"{{x}} {phrase} what?" for phrase in more]
