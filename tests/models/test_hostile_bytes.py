"""Models of changed bytes: each ends as a model that works, or as a named error."""

from __future__ import annotations

import contextlib
import json
import math
import random
import shutil
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM

from kgqa.answers.ranking import calibrated
from kgqa.decoding.scores import log_probabilities
from kgqa.errors import KgqaError, ModelError
from kgqa.models.adapter import AdapterCard
from kgqa.models.graph_reasoner import load_reasoner
from kgqa.models.graph_reasoner_torch import TrainableReasoner, save_reasoner
from kgqa.models.kg_llm import KgLLM, load_kg_llm
from kgqa.models.locate import converted_gguf, smollm_gguf
from kgqa.models.path_ranker import RankerCard, load_path_ranker, save_path_ranker
from kgqa.models.plan_scorer import KINDS, SCORERS, Part, load_plan_scorer
from kgqa.models.pretrained import quiet
from kgqa.models.sentences import load_sentence_encoder
from kgqa.progress import Silent
from kgqa.trie.constraint import Expansion
from tests.methods.reasoners import encoder_folder
from tests.models.test_graph_reasoner_card import card_of
from tests.models.test_path_ranker import changes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def damaged(content: bytes, dice: random.Random) -> bytes:
    """Change a few bytes, mostly of the beginning, where lengths stand; or end it early."""
    found = bytearray(content)
    for _ in range(dice.choice([1, 3, 9])):
        reach = min(len(found), dice.choice([16, 200, len(found)]))
        found[dice.randrange(reach)] = dice.choice([0, 0x22, 0x7F, 0xFF, dice.randrange(256)])
    return bytes(found[: dice.choice([len(found), len(found), len(found) // 2, 9])])


def written(made: KgLLM) -> Any:
    """Return the log-probabilities of a few tokens, as a search reads them."""
    rows = np.array([0, 0, 1, 2])
    moves = Expansion(row=rows, token=rows + 1, state=rows)
    logits = made.model(input_ids=torch.tensor([[1, 2, 3]])).logits[0]
    return log_probabilities(logits, moves, "vocabulary").tolist()


def models(folder: Path, tiny_folder: Path) -> dict[str, Callable[[Path], Any]]:
    """Return what loads and uses a folder of each kind; the folders lie in ``folder``."""
    where: dict[str, Any] = {"device": "cpu", "progress": Silent()}
    encoder = encoder_folder(folder / "encoder")
    save_path_ranker(folder / "ranker", RankerCard(encoder=str(encoder)), changes())
    shutil.copytree(tiny_folder, folder / "model")

    def ranker(changed: Path) -> Any:
        made = load_path_ranker(str(changed), encoder=str(encoder), cache=changed, **where)
        return made.logits(["who leads?"], ["x leads ?", "x owns ?"], [1, 2])

    def sentences(changed: Path) -> Any:
        return load_sentence_encoder(str(changed), cache=changed, **where).encode(["who?"])

    def model(changed: Path) -> Any:
        made = load_kg_llm(str(changed), "none", cache=changed, **where)
        assert made.encoder.encode("who leads?")
        return written(made)

    card = card_of(encoder)
    save_reasoner(folder / "reasoner", TrainableReasoner(card.hops, card.width, card.hidden), card)

    def reasoner(changed: Path) -> Any:
        made = load_reasoner(str(changed), encoder=str(encoder), cache=changed, **where)
        return [float(value.sum(dtype=float)) for value in made.model.tensors.values()]

    lora = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    with quiet():
        tiny = AutoModelForCausalLM.from_pretrained(tiny_folder)
        get_peft_model(tiny, lora).save_pretrained(folder / "adapter")
    AdapterCard().write(folder / "adapter")

    def adapter(changed: Path) -> Any:
        made = load_kg_llm(str(tiny_folder), str(changed), cache=changed, **where)
        card = made.card
        slope, shift = card.calibration_slope, card.calibration_shift
        return [*written(made), *(calibrated(one, slope, shift) for one in (1e-9, 0.5, 1 - 1e-9))]

    shutil.copytree(SCORERS.folder("universal"), folder / "scorer")

    def scorer(changed: Path) -> Any:
        parts = [Part(kind, "team member") for kind in KINDS]
        found = load_plan_scorer(str(changed)).read("who leads?", parts)
        return [
            *np.concatenate(found.parts),
            *(v for w in found.whole.values() for v in w.values()),
        ]

    return {
        "ranker": ranker,
        "encoder": sentences,
        "model": model,
        "reasoner": reasoner,
        "adapter": adapter,
        "scorer": scorer,
    }


def forged(tensors: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """Change one tensor, or all: NaN or too large values, shapes, types, names."""
    found = dict(tensors)
    some = list(found) if dice.random() < 0.3 else [dice.choice(sorted(found))]
    how = dice.choice([
        lambda one: np.full_like(one, math.nan), lambda one: np.full(one.shape, 1e308),
        lambda one: np.full(one.shape, 3e38, np.float32), lambda one: np.full_like(one, -math.inf),
        lambda one: np.full(one.shape, 60_000, np.float32), lambda one: one[:-1],
        lambda one: one.reshape(-1), lambda one: one[..., None], lambda one: one[:0],
        lambda one: one.astype(np.int64), lambda one: one.astype(bool), lambda one: None,
    ])  # fmt: skip
    for name in some:
        changed = how(found.pop(name))
        if changed is not None:
            found[name] = np.ascontiguousarray(changed)
    return found


@pytest.mark.parametrize("kind", ["ranker", "encoder", "reasoner", "adapter", "scorer", "model"])
@pytest.mark.parametrize("count", [5, pytest.param(100, marks=pytest.mark.long)])
def test_weights_of_any_values_shapes_and_types(
    tmp_path: Path, tiny_folder: Path, kind: str, count: int
) -> None:
    load = models(tmp_path, tiny_folder)[kind]
    (file,) = (tmp_path / kind).glob("*.safetensors")
    whole = load_file(file)
    for number in range(count):
        save_file(forged(whole, random.Random(number)), file, {"format": "pt"})
        try:
            found = np.asarray(load(tmp_path / kind))
        except KgqaError:
            continue
        json.dumps(found.tolist(), allow_nan=False)
    torch.save(whole, file)
    with pytest.raises(KgqaError):
        load(tmp_path / kind)


@pytest.mark.parametrize("count", [24, pytest.param(600, marks=pytest.mark.long)])
def test_a_model_folder_of_changed_bytes(tmp_path: Path, tiny_folder: Path, count: int) -> None:
    loads = models(tmp_path, tiny_folder)
    errors = 0
    for number in range(count):
        dice = random.Random(number)
        kind = dice.choice(sorted(loads))
        changed = tmp_path / f"{kind}{number}"
        shutil.copytree(tmp_path / kind, changed)
        file = dice.choice(sorted(path for path in changed.iterdir() if path.is_file()))
        file.write_bytes(damaged(file.read_bytes(), dice))
        try:
            found = np.asarray(loads[kind](changed))
        except KgqaError:
            errors += 1
        else:
            json.dumps(found.tolist(), allow_nan=False)
        shutil.rmtree(changed)
    assert 0 < errors < count


FORGED = [
    *(10**30, 10**9, 10**5000, -1, 0, 1e308, -1e308, 5e-324, math.nan, "Infinity", "NaN", True),
    *([], {}, None, "", "../../x", "/dev/zero", "x\0", "a" * 100_000, ["b"] * 10_000),
    {"a": [[[[1e308]]]]},
]


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *(("ranker", 150), ("reasoner", 150), ("encoder", 40), ("scorer", 15)),
        *(("adapter", 5), ("model", 5)),  # these take long to load
        *(
            pytest.param(kind, count, marks=pytest.mark.long)
            for kind, count in (
                ("ranker", 1_000),
                ("reasoner", 1_000),
                ("encoder", 1_000),
                ("scorer", 300),
                ("adapter", 60),
                ("model", 60),
            )
        ),
    ],
)
def test_a_card_of_any_values(tmp_path: Path, tiny_folder: Path, kind: str, count: int) -> None:
    """``count``: the most changes of each file that are tried."""
    load = models(tmp_path, tiny_folder)[kind]
    limit = sys.get_int_max_str_digits()
    for file in (tmp_path / kind).glob("*.json"):
        whole = json.loads(file.read_text("utf-8"))
        sys.set_int_max_str_digits(0)
        every = [(name, one) for name in whole for one in FORGED]
        some = random.Random(kind).sample(every, min(len(every), count))
        texts = [json.dumps({**whole, name: one}) for name, one in some]
        sys.set_int_max_str_digits(limit)
        for text in [*texts, "[" * 100_000, "", "7"]:
            file.write_text(text, "utf-8")
            with contextlib.suppress(KgqaError):
                json.dumps(np.asarray(load(tmp_path / kind)).tolist(), allow_nan=False)
        file.write_text(json.dumps(whole), "utf-8")


def test_more_layers_than_weights_end_at_once(tiny_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 10**9}))
    with pytest.raises(KgqaError, match="more layers than its weights have tensors"):
        load_kg_llm(str(folder), "none", device="cpu", cache=tmp_path, progress=Silent())


@pytest.mark.model
@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.long)])
def test_a_gguf_file_of_any_header(tmp_path: Path, count: int) -> None:
    with smollm_gguf().open("rb") as whole:
        head = whole.read(200_000)
    for number in range(count):
        dice = random.Random(number)
        file = tmp_path / f"{number}.gguf"
        file.write_bytes(damaged(head[: dice.choice([40, 4_000, 200_000])], dice))
        with pytest.raises(ModelError):
            converted_gguf(file, tmp_path / "cache", Silent(), name=f"forged{number}")
