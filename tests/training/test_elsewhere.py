"""Relations that KGs of many domains have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.models.path_ranker import PathRanker, RankerCard
from kgqa.training.domains import Domain
from kgqa.training.elsewhere import attributes, relations_elsewhere
from tests.methods.reasoners import WIDTH, encoder_folder, tiny_encoder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def ranker(tmp_path_factory: pytest.TempPathFactory) -> PathRanker:
    folder = encoder_folder(tmp_path_factory.mktemp("encoder") / "tiny")
    return PathRanker("random", RankerCard(encoder=str(folder)), tiny_encoder(folder))


def test_as_many_groups_as_relations_are_the_relations_themselves(
    practice: Path, ranker: PathRanker
) -> None:
    domain = Domain(practice)
    vectors = ranker.vectors([text for text, _ in domain.phrasings()])
    found = relations_elsewhere(ranker, [domain], groups=100)
    cosine = found @ vectors.T
    assert cosine.max(axis=0) == pytest.approx(1.0, abs=1e-5)


def test_fewer_groups_lie_among_them(practice: Path, ranker: PathRanker) -> None:
    domain = Domain(practice)
    found = relations_elsewhere(ranker, [domain], groups=2)
    assert found.shape == (2, WIDTH)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0, abs=1e-5)
    again = relations_elsewhere(ranker, [domain], groups=2)
    np.testing.assert_array_equal(found, again)


def test_attributes_are_read_as_relations_are() -> None:
    texts = attributes()
    assert "x phone number ? such as +44 20 7946 0018, 555-0134" in texts
    assert len(set(texts)) == len(texts)
    assert all(one.startswith("x ") and " ? such as " in one for one in texts)
