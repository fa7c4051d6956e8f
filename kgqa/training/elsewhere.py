"""Relations that KGs of many domains have, few enough to be kept with a ranker.

A question about something that no relation of a KG says is known by what it resembles: a relation
of another KG. These are attributes that people ask for everywhere (a phone number, a price), and
the relations of the invented domains, brought together to the means of groups (k-means on the
sphere: Dhillon and Modha, Machine Learning 2001). All are read in words, as any relation is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.words import relation_path_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kgqa.models.path_ranker import PathRanker
    from kgqa.training.domains import Domain

ATTRIBUTES = Path(__file__).parent.parent / "data" / "training" / "attributes.tsv"
GROUPS = 254
_ROUNDS = 15


def attributes(file: Path = ATTRIBUTES) -> list[str]:
    """Return the attributes of a file in words: each line its phrase, a tab, and two examples."""
    rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()]
    return [relation_path_text([(0, -1)], [phrase], shown.split(", ")) for phrase, shown in rows]


def relations_elsewhere(
    ranker: PathRanker, domains: Sequence[Domain], groups: int = GROUPS, seed: int = 0
) -> NDArray[np.float32]:
    """Return the mean vectors ``[groups, width]`` of the domains' relations, each way."""
    texts = dict.fromkeys(text for domain in domains for text, _ in domain.phrasings())
    vectors = ranker.vectors(list(texts))
    draw = np.random.default_rng(seed)
    means = vectors[draw.choice(len(vectors), min(groups, len(vectors)), replace=False)]
    for _ in range(_ROUNDS):
        nearest = (vectors @ means.T).argmax(axis=1)
        for group in range(len(means)):
            mine = vectors[nearest == group]
            if len(mine):
                means[group] = mine.mean(axis=0) / np.linalg.norm(mine.mean(axis=0))
    return means
