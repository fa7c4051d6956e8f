"""BM25 over a few thousand short texts: Robertson and Zaragoza (2009), exact, in memory.

What it does not do: stem, or keep an index.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

K1, B = 1.2, 0.75
_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, in small letters."""
    return _WORD.findall(text.casefold())


def bm25(query: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the score of each text for the query."""
    counts = [Counter(words_of(text)) for text in texts]
    length = np.array([sum(one.values()) for one in counts], float)
    norm = K1 * (1 - B + B * length / max(length.mean(), 1.0)) if len(texts) else length
    scores = np.zeros(len(texts))
    for word in dict.fromkeys(words_of(query)):
        often = np.array([one[word] for one in counts], float)
        having = int((often > 0).sum())
        if having:
            rare = np.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
            scores += rare * often * (K1 + 1) / (often + norm)
    return scores
