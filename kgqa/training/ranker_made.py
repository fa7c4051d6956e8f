"""Questions made from a KG alone: what people ask for relations that mean nearly the same.

The domains that the universal ranker was trained on have people's questions for some two thousand
relations. A relation of the KG borrows those of the nearest ones, as the ranker itself sees them;
asked about entities of the KG, they teach it to tell *this* KG's relations apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.methods.rank import RankWords
from kgqa.paths.relation_paths import relation_paths
from kgqa.paths.walk import WalkRules
from kgqa.paths.words import TOPIC
from kgqa.training.ranker_domains import DOMAINS, Domain
from kgqa.training.ranker_questions import KgQuestion

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from kgqa.graph.store import GraphStore
    from kgqa.models.path_ranker import PathRanker
    from kgqa.paths.relation_paths import RelationPaths
    from kgqa.progress import Progress

_NEAREST = 3  # relations of the domains that a relation borrows from
_LIKE = 0.45  # cosine from which they are near
_EACH = 2  # questions about each of a relation's entities
_MOST = 600  # questions in all


def made_questions(
    store: GraphStore,
    ranker: PathRanker,
    random: Random,
    progress: Progress,
    domains: Path = DOMAINS,
) -> list[KgQuestion]:
    """Return questions about the KG's relations; the same for the same KG. Raises GraphError."""
    rules = WalkRules(ranker.card.hops, store.info.direction)
    words = RankWords(store, rules)
    phrasings = [one for file in sorted(domains.glob("*.json")) for one in Domain(file).phrasings()]
    hops = words.schema.hops()
    with progress.task("making questions", len(hops), "relations") as task:
        theirs = ranker.encoder.encode([text for text, _ in phrasings])
        ours = ranker.encoder.encode([words.path([hop]) for hop in hops])
        walked: dict[int, RelationPaths] = {}
        found: list[KgQuestion] = []
        for hop, vector in zip(hops, ours, strict=True):
            task.advance()
            cosine = theirs @ vector
            near = [at for at in np.argsort(-cosine)[:_NEAREST].tolist() if cosine[at] > _LIKE]
            texts = [text for at in near for text in phrasings[at][1]]
            for topic in words.schema.topics(hop) if texts else ():
                if topic not in walked:
                    walked[topic], _ = relation_paths(store, topic, rules)
                steps = walked[topic].steps
                paths, lengths = tuple(map(words.path, steps)), tuple(map(len, steps))
                gold = frozenset(at for at, one in enumerate(steps) if one == (hop,))
                for text in random.sample(texts, min(_EACH, len(texts))):
                    found.append(KgQuestion(text.replace("{x}", TOPIC), paths, lengths, gold))
    return random.sample(found, min(len(found), _MOST))
