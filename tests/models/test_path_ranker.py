"""A path ranker on disk, and what its logits are."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kgqa.errors import AdapterMismatchError, ModelError, ModelNotFoundError
from kgqa.models.path_ranker import (
    HEAD,
    OWN_RANKER,
    RANKERS,
    UNIVERSAL,
    PathRanker,
    RankerCard,
    load_path_ranker,
    ranker_changes,
    save_path_ranker,
    suited_ranker,
)
from kgqa.models.sentences import load_trainable_encoder
from kgqa.progress import Silent
from tests.methods.reasoners import WIDTH, encoder_folder, tiny_encoder

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.models.folders import Changes

WEIGHT = "encoder.layer.0.attention.self.query.weight"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encoder_folder(tmp_path_factory.mktemp("encoder") / "tiny")


def load(folder: Path, encoder: Path) -> PathRanker:
    where: dict[str, Any] = {"device": "cpu", "cache": folder, "progress": Silent()}
    return load_path_ranker(str(folder), encoder=str(encoder), **where)


def changes(width: int = WIDTH) -> Changes:
    draw = np.random.default_rng(2)
    down, up = draw.normal(size=(3, width)), draw.normal(size=(width, 3))
    return {WEIGHT: (down.astype(np.float32), up.astype(np.float32))}


def test_what_was_saved_is_loaded(encoder: Path, tmp_path: Path) -> None:
    card = RankerCard(encoder=str(encoder), scale=10.0, hop_bias=(0.5, -1.0), none=2.0)
    save_path_ranker(tmp_path, card, changes())
    ranker = load(tmp_path, encoder)
    assert ranker.card == card
    down, up = ranker_changes(str(tmp_path))[WEIGHT]
    trained = load_trainable_encoder(str(encoder), device="cpu", cache=tmp_path, progress=Silent())
    trained.change({WEIGHT: up @ down})
    texts = ["who made x?", "y"]
    np.testing.assert_allclose(ranker.encoder.encode(texts), trained.encode(texts), atol=1e-5)
    assert np.abs(ranker.encoder.encode(texts) - tiny_encoder(encoder).encode(texts)).max() > 0.01
    questions, paths = ["who made x?", "when"], ["x made by ?", "y made by x, y in ?", "x age ?"]
    logits = ranker.logits(questions, paths, [1, 2, 5])
    cosine = ranker.encoder.encode(questions) @ ranker.encoder.encode(paths).T
    np.testing.assert_allclose(logits, 10 * cosine + np.array([0.5, -1.0, -1.0]), atol=1e-4)
    cooler = RankerCard(
        encoder=str(encoder), scale=10.0, hop_bias=(0.5, -1.0), none=2.0, temperature=2.0
    )
    save_path_ranker(tmp_path, cooler, changes())
    np.testing.assert_allclose(
        load(tmp_path, encoder).logits(questions, paths, [1, 2, 5]), logits / 2
    )
    assert load(tmp_path, encoder).none == 1.0


def test_the_ranker_of_a_kg_is_its_own_then_that_for_its_relations_then_the_universal_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled, kg = tmp_path / "bundled", tmp_path / "kg"
    save_path_ranker(bundled / UNIVERSAL, RankerCard(encoder="tiny"), {})
    people = RankerCard(encoder="tiny", calibrated_on=("people", "film"))
    save_path_ranker(bundled / "people", people, {})
    monkeypatch.setattr(RANKERS, "bundled", bundled)
    relations = ["people.person.born", "hasPart"]
    assert suited_ranker(relations, kg) == "people"
    assert suited_ranker([*relations, "madeOf"], kg) == UNIVERSAL
    assert suited_ranker([], kg) == UNIVERSAL
    save_path_ranker(kg / OWN_RANKER, RankerCard(encoder="tiny"), {})
    assert suited_ranker(relations, kg) == str(kg / OWN_RANKER)
    assert suited_ranker(relations) == "people"


def test_a_ranker_may_extend_a_bundled_one(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RANKERS, "bundled", tmp_path / "bundled")
    elsewhere = np.random.default_rng(3).normal(size=(5, WIDTH)).astype(np.float32)
    elsewhere /= np.linalg.norm(elsewhere, axis=1, keepdims=True)
    card = RankerCard(encoder=str(encoder))
    save_path_ranker(tmp_path / "bundled" / UNIVERSAL, card, changes(), elsewhere)
    head = np.ones((2, WIDTH), np.float32), np.ones((WIDTH, 2), np.float32)
    save_path_ranker(
        tmp_path / "own", RankerCard(encoder=str(encoder), extends=UNIVERSAL), {HEAD: head}
    )
    save_path_ranker(tmp_path / "whole", RankerCard(encoder=str(encoder)), changes() | {HEAD: head})
    asked = ["q"], ["a", "b"], [1, 2]
    extended, whole = (load(tmp_path / one, encoder) for one in ("own", "whole"))
    np.testing.assert_array_equal(extended.logits(*asked), whole.logits(*asked))
    assert set(ranker_changes(str(tmp_path / "own"))) == {WEIGHT, HEAD}
    assert extended.elsewhere is not None
    np.testing.assert_allclose(extended.elsewhere, elsewhere, atol=0.01)
    assert whole.elsewhere is None
    assert whole.logit_elsewhere("q") == -np.inf
    nearest = (extended._with_head(extended.elsewhere) @ extended.vectors(["q"])[0]).max()
    expected = extended.card.scale * nearest + extended.card.hop_bias[0]
    assert extended.logit_elsewhere("q") == pytest.approx(float(expected), abs=1e-3)
    rewrite(tmp_path / "own", extends="another")
    with pytest.raises(ModelNotFoundError, match="another"):
        load(tmp_path / "own", encoder)


def test_relations_of_other_kgs_belong_to_the_encoder_that_read_them(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RANKERS, "bundled", tmp_path)
    card = RankerCard(encoder=str(encoder))
    save_path_ranker(tmp_path / UNIVERSAL, card, {}, np.ones((1, WIDTH), np.float32))
    extended = RankerCard(encoder=str(encoder), extends=UNIVERSAL)
    save_path_ranker(tmp_path / "changed", extended, changes())
    assert load(tmp_path / "changed", encoder).elsewhere is None
    save_path_ranker(tmp_path / "odd", card, {}, np.ones((1, WIDTH // 2), np.float32))
    with pytest.raises(ModelError, match="are not of the encoder"):
        load(tmp_path / "odd", encoder)


def test_a_ranker_extends_no_folder_that_is_not_bundled(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_path_ranker(tmp_path / "evil", RankerCard(encoder=str(encoder)), changes())
    save_path_ranker(tmp_path / "own", RankerCard(encoder=str(encoder), extends="evil"), changes())
    with pytest.raises(ModelNotFoundError, match="evil"):
        load(tmp_path / "own", encoder)


def test_a_text_is_encoded_once(encoder: Path, tmp_path: Path) -> None:
    save_path_ranker(tmp_path, RankerCard(encoder=str(encoder)), {})
    ranker = load(tmp_path, encoder)
    seen: list[str] = []
    encode = ranker.encoder.encode
    ranker.encoder.encode = lambda texts: seen.extend(texts) or encode(texts)  # type: ignore[method-assign]
    ranker.logits(["q"], ["a", "b", "a"], [1, 1, 1])
    ranker.logits(["q"], ["b", "c"], [1, 1])
    assert sorted(seen) == ["a", "b", "c", "q"]


def test_the_head_is_applied_to_a_text_once(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_path_ranker(tmp_path, RankerCard(encoder=str(encoder)), {})
    plain = load(tmp_path, encoder)
    draw = np.random.default_rng(3)
    head = tuple(draw.normal(size=size).astype(np.float32) for size in ((2, WIDTH), (WIDTH, 2)))
    changed: list[int] = []
    apply = PathRanker._with_head

    def counted(self: PathRanker, vectors: Any) -> Any:
        changed.append(len(vectors))
        return apply(self, vectors)

    monkeypatch.setattr(PathRanker, "_with_head", counted)
    ranker = dataclasses.replace(plain, head=head)  # of the same texts
    plain.vectors(["a", "b"])
    ranker.vectors(["a", "c", "a"])
    ranker.vectors(["d", "b", "c"])
    assert sum(changed) == 4
    for text in "abcd":
        vector = plain.vectors([text])
        once = vector + vector @ head[0].T @ head[1].T
        np.testing.assert_allclose(ranker.vectors([text]), once / np.linalg.norm(once), atol=1e-5)
    assert sum(changed) == 4
    before = ranker.vectors(["a"])
    ranker.head = head[0] * 2, head[1]
    assert np.abs(ranker.vectors(["a"]) - before).max() > 1e-3


def test_rows_hold_until_texts_are_forgotten(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_path_ranker(tmp_path, RankerCard(encoder=str(encoder)), {})
    ranker = load(tmp_path, encoder)
    monkeypatch.setattr("kgqa.models.path_ranker._MOST_KEPT", 3 * WIDTH * 4)
    vectors = {text: ranker.encoder.encode([text]) for text in "abcde"}
    era, rows = ranker.era, ranker.rows(["a", "b", "c"])
    assert ranker.era is era
    np.testing.assert_allclose(ranker.at(rows[1:2]), vectors["b"], atol=1e-5)
    rows = ranker.rows(["d", "a"])
    assert ranker.era is not era
    np.testing.assert_allclose(ranker.at(rows), np.vstack([vectors["d"], vectors["a"]]), atol=1e-5)
    for text, vector in vectors.items():
        np.testing.assert_allclose(ranker.vectors([text]), vector, atol=1e-5)


@pytest.mark.parametrize(
    ("damage", "error", "said"),
    [
        (lambda f: (f / "ranker.safetensors").unlink(), ModelNotFoundError, "ranker.safetensors"),
        (lambda f: (f / "ranker.safetensors").write_bytes(b"x" * 40), ModelError, "damaged"),
        (lambda f: (f / "ranker.json").write_text("{"), ModelError, "not JSON"),
        (lambda f: (f / "ranker.json").unlink(), ModelNotFoundError, "ranker.json"),
        (lambda f: rewrite(f, scale=-1), ModelError, "scale"),
        (lambda f: rewrite(f, scale=1e308), ModelError, "scale"),
        (lambda f: rewrite(f, temperature=1e-308), ModelError, "temperature"),
        (lambda f: rewrite(f, none=1e39), ModelError, "none"),
        (lambda f: rewrite(f, hop_bias=[-1e300]), ModelError, "hop_bias"),
        (lambda f: rewrite(f, extends="../../elsewhere"), ModelError, "extends"),
        (lambda f: rewrite(f, hop_bias=[]), ModelError, "hop_bias"),
        (lambda f: rewrite(f, format_version=9), AdapterMismatchError, "version 9"),
    ],
)
def test_damaged_files_are_named(encoder: Path, tmp_path: Path, damage, error, said: str) -> None:
    save_path_ranker(tmp_path, RankerCard(encoder=str(encoder)), changes())
    damage(tmp_path)
    with pytest.raises(error, match=said):
        load(tmp_path, encoder)


def test_changes_of_another_encoder_are_refused(encoder: Path, tmp_path: Path) -> None:
    save_path_ranker(tmp_path, RankerCard(encoder=str(encoder)), changes(WIDTH // 2))
    with pytest.raises(ModelError, match="are not of the encoder"):
        load(tmp_path, encoder)
    bad = {WEIGHT: (np.full((3, WIDTH), np.nan), np.ones((WIDTH, 3)))}
    save_path_ranker(tmp_path, RankerCard(encoder=str(encoder)), bad)
    with pytest.raises(ModelError, match="not all are numbers"):
        load(tmp_path, encoder)


def rewrite(folder: Path, **fields: object) -> None:
    card = json.loads((folder / "ranker.json").read_text())
    (folder / "ranker.json").write_text(json.dumps({**card, **fields}))
