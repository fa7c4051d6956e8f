"""Everyday names for the classes of a graph of plain triples, found by a sentence encoder.

Such classes are called by their relations ("screening of, directed by, running time") and have
names of entities; of a list of common nouns the nearest one ("film") stands for a class where a
question and a schema are read together. A question is near to a class as its words are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kgqa.lexicon.english import english
from kgqa.models.kept_vectors import KeptVectors
from kgqa.paths.words import relation_phrase
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.graph.schema import GraphSchema
    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.queries.join import QueryStore

WEIGHTS = weights("planning")
_SHOWN = 3  # entity names encoded for a class
_ASKING = re.compile(
    r"^\W*(?:which|what|who|where|list|show|name|how many|how much|how long)\b"
    r"(?:\s+(?:are|is|all|the|of|does|do|did|was|were|a|an|average|in|at|\d+|one|two|three))*\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ClassWords:
    """Everyday names of classes: ``nouns``, and word ``vectors`` ``[2, classes, width]``."""

    nouns: Mapping[str, str] = field(default_factory=dict)
    vectors: NDArray[np.float32] | None = None
    encoder: SentenceEncoder | None = None

    def near(self, question: str) -> dict[str, float]:
        """Return each class's similarity to a question, minus the highest.

        {} without an encoder.
        """
        if self.encoder is None or self.vectors is None:
            return {}
        rest = " ".join(_ASKING.sub("", question).split()[:2])
        asked = _unit(self.encoder.encode([question, rest or question]))
        cosines = (self.vectors @ asked.T).sum(axis=(0, 2))
        return dict(zip(self.nouns, (cosines - cosines.max()).tolist(), strict=True))


def class_words(
    store: QueryStore, schema: GraphSchema, encoder: SentenceEncoder, folder: Path | None = None
) -> ClassWords:
    """Return everyday names for a schema's classes, found by an encoder; unclear ones keep theirs.

    ``folder``: for the cache of vectors, None: no cache. Raises GraphError.
    """
    encode = encoder.encode
    if folder is not None and folder.is_dir():
        name = re.sub(r"\W+", "-", encoder.name)[-80:]
        encode = KeptVectors(folder / f"vectors-{name}.sqlite", encoder.encode).vectors
    by_relations = [", ".join(dict.fromkeys([type_.name, *type_.also])) for type_ in schema.types]
    names = [
        [name or "" for name in store.entities(store.instances(type_.name)[:200]).names]
        for type_ in schema.types
    ]
    shown = [", ".join(some[:: max(1, len(some) // _SHOWN)][:_SHOWN]) for some in names]
    both = [f"{words}: {some}" for words, some in zip(by_relations, shown, strict=True)]
    vectors = np.stack([_unit(encode(texts)) for texts in (by_relations, both)])
    nouns = english()["words"]["nouns"].split()  # ties go to the earlier noun
    to_noun = (vectors.sum(axis=0) + _unit(encode(shown))) @ _unit(encode(nouns)).T
    to_noun = to_noun - WEIGHTS["noun_likeness_to_all"] * to_noun.mean(axis=0, keepdims=True)
    called = {}
    own = {type_.name for type_ in schema.types}
    for one, row in zip(schema.types, to_noun, strict=True):
        noun, (second, first) = nouns[int(row.argmax())], np.sort(row)[-2:]
        sure = (
            first >= WEIGHTS["noun_score"] or first - second >= WEIGHTS["noun_lead"]
        ) and noun not in own
        called[one.name] = noun if sure else one.name
    return ClassWords(called, vectors, encoder)


def nameless(schema: GraphSchema, nouns: Mapping[str, str]) -> set[str]:
    """Return the inferred classes whose noun is just the name of one of their own relations.

    ``nouns``: everyday names by class.
    """
    own = {(relation.head, relation_phrase(relation.relation)) for relation in schema.relations}
    own |= {(type_.name, relation_phrase(each.name)) for type_ in schema.types
            for each in type_.properties}  # fmt: skip
    return {name for name, noun in nouns.items() if (name, noun) in own}


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors scaled to length 1."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), np.float32)
