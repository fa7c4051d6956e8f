"""Vectors of a KG's words are computed once, whatever becomes of the file that keeps them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.models import kept_vectors
from kgqa.models.kept_vectors import KeptVectors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


class Encoder:
    """Gives texts vectors of their own, and notes what it read."""

    def __init__(self, seed: int = 0, width: int = 8) -> None:
        self.read: list[str] = []
        self._seed, self._width = seed, width

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.read += texts
        made = np.zeros((len(texts), self._width), np.float32)
        for row, text in enumerate(texts):
            draw = np.random.default_rng([self._seed, *text.encode()])
            made[row] = draw.normal(size=self._width)
        return made / np.linalg.norm(made, axis=1, keepdims=True)


def asked(encoder: Encoder, texts: Sequence[str]) -> list[str]:
    """Return which of ``texts`` an encoder read."""
    return [text for text in encoder.read if text in texts]


TEXTS = ["x made by ?", "y is the father of x", "x made by ?"]


def test_a_text_is_read_once_by_whichever_process(tmp_path: Path) -> None:
    file, first, second = tmp_path / "v.sqlite", Encoder(), Encoder()
    made = KeptVectors(file, first).vectors(TEXTS)
    np.testing.assert_array_equal(made, Encoder()(TEXTS))
    assert sorted(asked(first, TEXTS)) == sorted(set(TEXTS))
    kept = KeptVectors(file, second)
    np.testing.assert_array_equal(kept.vectors(TEXTS), made)
    assert asked(second, TEXTS) == []
    np.testing.assert_array_equal(kept.vectors(["x age ?", *TEXTS])[1:], made)
    assert asked(second, [*TEXTS, "x age ?"]) == ["x age ?"]
    assert not any(text.encode() in file.read_bytes() for text in TEXTS)
    assert kept.vectors([]).shape == (0, 8)


@pytest.mark.parametrize("other", [Encoder(1), Encoder(0, 6)])
def test_those_of_another_encoder_are_never_given(tmp_path: Path, other: Encoder) -> None:
    file = tmp_path / "v.sqlite"
    KeptVectors(file, Encoder()).vectors(TEXTS)
    np.testing.assert_array_equal(KeptVectors(file, other).vectors(TEXTS), other(TEXTS))


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\1" * 5_000])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "v.sqlite"
    file.write_bytes(content)
    KeptVectors(file, Encoder()).vectors(TEXTS)
    again = Encoder()
    np.testing.assert_array_equal(KeptVectors(file, again).vectors(TEXTS), Encoder()(TEXTS))
    assert asked(again, TEXTS) == []


@pytest.mark.parametrize("value", [b"", b"12345", np.zeros(8, np.float32).tobytes(), None, "text"])
def test_a_damaged_vector_is_computed(tmp_path: Path, value: object) -> None:
    file = tmp_path / "v.sqlite"
    KeptVectors(file, Encoder()).vectors(TEXTS)
    key = kept_vectors._hash(TEXTS[0])
    with closing(sqlite3.connect(file)) as store, store:
        store.execute("UPDATE vectors SET vector = ? WHERE text = ?", (value, key))
    for _ in range(2):
        np.testing.assert_array_equal(KeptVectors(file, Encoder()).vectors(TEXTS), Encoder()(TEXTS))


def test_where_nothing_can_be_written_all_is_computed(tmp_path: Path) -> None:
    kept = KeptVectors(tmp_path / "missing" / "v.sqlite", Encoder())
    np.testing.assert_array_equal(kept.vectors(TEXTS), Encoder()(TEXTS))
    np.testing.assert_array_equal(kept.vectors(TEXTS[:1]), Encoder()(TEXTS[:1]))


def test_a_file_grows_only_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_vectors, "MOST_VECTORS", 3)  # one is the encoder's mark
    file, encoder = tmp_path / "v.sqlite", Encoder()
    texts = ["a", "b", "c", "d"]
    KeptVectors(file, encoder).vectors(texts)
    again = Encoder()
    np.testing.assert_array_equal(KeptVectors(file, again).vectors(texts), Encoder()(texts))
    assert len(asked(again, texts)) == 2
