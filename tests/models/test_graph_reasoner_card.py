"""A reasoner's folder: what is written is read, and what is damaged is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from kgqa.errors import AdapterMismatchError, KgqaError, ModelError, ModelNotFoundError
from kgqa.models.graph_reasoner import load_reasoner
from kgqa.models.graph_reasoner_card import REASONERS, ReasonerCard
from kgqa.models.graph_reasoner_torch import TrainableReasoner, save_reasoner
from kgqa.progress import Silent
from tests.methods.reasoners import WIDTH, encoder_folder

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.models.graph_reasoner import LoadedReasoner


def card_of(encoder: Path | str, **more: Any) -> ReasonerCard:
    values: dict[str, Any] = {
        "hops": 2,
        "direction": "out",
        "mediators": "collapse",
        "encoder": str(encoder),
        "width": WIDTH,
        "hidden": 8,
        "relations": ("a.b", "c.d"),
        "described": {"data": "none"},
    }
    return ReasonerCard(**{**values, **more})


def made(card: ReasonerCard) -> TrainableReasoner:
    return TrainableReasoner(card.hops, card.width, card.hidden)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encoder_folder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture
def folder(encoder: Path, tmp_path: Path) -> Path:
    torch.manual_seed(2)
    card = card_of(encoder)
    save_reasoner(tmp_path / "w", made(card), card)
    return tmp_path / "w"


def load(folder: Path) -> LoadedReasoner:
    named = REASONERS.card(folder).encoder  # by the user, who trusts it
    return load_reasoner(str(folder), device="cpu", cache=folder, progress=Silent(), encoder=named)


def test_what_is_written_is_read(encoder: Path, folder: Path, tmp_path: Path) -> None:
    assert load(folder).card == card_of(encoder)
    card = card_of(encoder, direction="both", answer_threshold=0.7)
    model = made(card)
    save_reasoner(tmp_path / "both", model, card)
    found = load(tmp_path / "both")
    assert found.card == card
    for name, weight in model.state_dict().items():
        np.testing.assert_allclose(
            found.model.tensors[name], weight.numpy(force=True), atol=1e-3, rtol=1e-3
        )


def test_a_bundled_reasoner_is_found_by_its_name_and_says_how_it_was_made() -> None:
    for name in REASONERS.names():
        card = REASONERS.card(REASONERS.folder(name))
        assert card.described["figures"]
        assert "machine" not in json.dumps(card.described)
        assert sum(path.stat().st_size for path in REASONERS.folder(name).iterdir()) < 6_000_000
        assert (REASONERS.folder(name) / "README.md").is_file()


def test_what_is_missing_or_damaged_is_named(folder: Path, tmp_path: Path) -> None:
    weights, card = folder / "reasoner.safetensors", folder / "reasoner.json"
    whole, text = weights.read_bytes(), card.read_text("utf-8")

    def fails(kind: type[KgqaError], said: str, where: Path = folder) -> None:
        with pytest.raises(kind, match=said) as raised:
            load(where)
        assert raised.value.hint

    fails(ModelNotFoundError, "is not there", tmp_path / "no such")
    weights.write_bytes(whole[: len(whole) // 2])
    fails(ModelError, "are damaged")
    weights.unlink()
    fails(ModelNotFoundError, "has no reasoner.safetensors")
    weights.write_bytes(whole)
    card.write_text(text[:-40], "utf-8")
    fails(ModelError, "is not JSON")
    card.write_text("[]", "utf-8")
    fails(ModelError, "not a JSON object")
    card.write_text(text.replace('"format_version": 4', '"format_version": 9'), "utf-8")
    fails(AdapterMismatchError, "format version 9")
    card.unlink()
    fails(ModelNotFoundError, "has no reasoner.json")


def test_an_encoder_of_another_width_is_refused(encoder: Path, tmp_path: Path) -> None:
    card = card_of(encoder, width=WIDTH + 1)
    save_reasoner(tmp_path / "w", made(card), card)
    with pytest.raises(AdapterMismatchError, match="gives 32"):
        load(tmp_path / "w")
