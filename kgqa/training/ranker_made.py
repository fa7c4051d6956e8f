"""Questions made from a KG alone: what people ask for relations that mean nearly the same.

The domains that the universal ranker was trained on have people's questions for some two thousand
relations. A relation of the KG borrows those of the nearest ones, as the ranker itself sees them;
asked about entities of the KG, they teach it to tell *this* KG's relations apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.relation_paths import relation_paths
from kgqa.paths.words import TOPIC
from kgqa.training.ranker_domains import DOMAINS, Domain
from kgqa.training.ranker_questions import KgQuestion, kg_question

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from random import Random

    from numpy.typing import NDArray

    from kgqa.methods.rank_words import RankWords
    from kgqa.models.path_ranker import PathRanker
    from kgqa.paths.relation_paths import RelationPaths
    from kgqa.paths.schema import Hop
    from kgqa.progress import Progress

_NEAREST = 3  # relations of the domains that a relation borrows from
_LIKE = 0.45  # cosine from which they are near
_EACH = 2  # questions about each of a relation's entities
_MOST = 600  # questions in all
_TOGETHER = 256  # texts that are read at a time


def made_questions(
    words: RankWords,
    ranker: PathRanker,
    random: Random,
    progress: Progress,
    domains: Path = DOMAINS,
) -> list[KgQuestion]:
    """Return questions about the KG's relations; the same for the same KG. Raises GraphError."""
    phrasings = [one for file in sorted(domains.glob("*.json")) for one in Domain(file).phrasings()]
    hops = words.schema.hops()
    theirs = _encoded([text for text, _ in phrasings], ranker, progress)
    ours = ranker.encoder.encode([words.path([hop]) for hop in hops])
    drawn: list[tuple[str, Hop, int]] = []
    for hop, vector in zip(hops, ours, strict=True):
        cosine = theirs @ vector
        near = [at for at in np.argsort(-cosine)[:_NEAREST].tolist() if cosine[at] > _LIKE]
        texts = [*_phrased(words, hop), *(text for at in near for text in phrasings[at][1])]
        for topic in words.schema.topics(hop):
            each = random.sample(texts, min(_EACH, len(texts)))
            drawn += [(text.replace("{x}", TOPIC), hop, topic) for text in each]
    drawn = random.sample(drawn, min(len(drawn), _MOST))
    walked: dict[int, RelationPaths] = {}
    found: list[KgQuestion] = []
    with progress.task("making questions", len(drawn), "questions") as task:
        for text, hop, topic in drawn:
            if topic not in walked:
                walked[topic], _ = relation_paths(words.store, topic, words.rules)
            found.append(kg_question(words, ranker, text, walked[topic].steps, [(hop,)]))
            task.advance()
    return found


def _encoded(texts: Sequence[str], ranker: PathRanker, progress: Progress) -> NDArray[np.float32]:
    """Return the vectors of ``texts``, some at a time so that progress shows."""
    parts = []
    with progress.task("reading what people ask", len(texts), "relations") as task:
        for start in range(0, len(texts), _TOGETHER):
            parts.append(ranker.encoder.encode(texts[start : start + _TOGETHER]))
            task.advance(len(parts[-1]))
    return np.concatenate(parts)


def _phrased(words: RankWords, hop: Hop) -> list[str]:
    """Return questions by the further phrases of a relation, which the user or its schema has."""
    if hop[1] >= 0:
        return []
    more = words.every_phrase[hop[0] // 2][1:]
    return [f"what {phrase} {{x}}?" if hop[0] % 2 else f"{{x}} {phrase} what?" for phrase in more]
