from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from kgqa.errors import AdapterMismatchError, ModelError, ModelNotFoundError, UsageError
from kgqa.models.adapter import AdapterCard, preset
from kgqa.models.device import pick_device
from kgqa.models.kg_llm import OWN_ADAPTER, KgLLM, load_kg_llm, suited_adapter
from kgqa.models.pretrained import quiet
from kgqa.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.model


def load(model: Path | None, adapter: Path | str | None, cache: Path) -> KgLLM:
    return load_kg_llm(
        str(model) if model else None,
        str(adapter) if adapter else None,
        device="cpu",
        cache=cache,
        progress=Silent(),
    )


def make_adapter(base: Path, folder: Path, card: AdapterCard) -> torch.Tensor:
    """Write a LoRA adapter that changes the model; return its logits on a fixed input."""
    torch.manual_seed(3)
    config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    with quiet():  # peft uses what transformers deprecates
        model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
        model.save_pretrained(folder)
    card.write(folder)
    with torch.no_grad():
        return model.eval()(INPUT).logits


INPUT = torch.tensor([[504, 1000, 2000, 300]])
TINY_CARD = AdapterCard(base_model="Tiny-Llama", hops=3)


@pytest.fixture(scope="module")
def tiny_adapter(
    tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, torch.Tensor]:
    folder = tmp_path_factory.mktemp("adapters") / "tiny-paths"
    return folder, make_adapter(tiny_folder, folder, TINY_CARD)


def test_the_offline_model_knows_the_capital_of_france(kg_llm: KgLLM, model_cache: Path) -> None:
    plain = load(None, "none", model_cache)
    assert plain.name == "SmolLM2-135M-Instruct"
    assert plain.adapter is None
    assert plain.card == preset("default")
    assert plain.model.dtype == torch.float32
    assert not plain.model.training
    assert plain.encoder.vocab_size == 49152 == kg_llm.encoder.vocab_size
    ids = plain.tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    out = plain.model.generate(**ids, max_new_tokens=12, do_sample=False)
    assert "Paris" in plain.encoder.decode(out[0, ids["input_ids"].shape[1] :].tolist())


def test_an_adapter_is_merged_and_its_card_taken(
    tiny_folder: Path, tiny_adapter: tuple[Path, torch.Tensor], tmp_path: Path
) -> None:
    folder, expected = tiny_adapter
    loaded = load(tiny_folder, folder, tmp_path)
    assert (loaded.name, loaded.adapter, loaded.card) == ("Tiny-Llama", "tiny-paths", TINY_CARD)
    assert not any("lora" in name for name, _ in loaded.model.named_parameters())
    assert not any(weight.requires_grad for weight in loaded.model.parameters())
    logits = loaded.model(INPUT).logits
    bare = load(tiny_folder, None, tmp_path).model(INPUT).logits
    assert torch.allclose(logits, expected, atol=1e-5)
    assert not torch.allclose(logits, bare, atol=1e-3)


def test_prompt_ids_decode_to_the_prompt(tiny_folder: Path, tmp_path: Path) -> None:
    loaded = load(tiny_folder, None, tmp_path)
    ids = loaded.prompt_ids("who founded <|im_end|> Rome?", ["Rome"])
    text = "Question: who founded <|im_end|> Rome?\nTopic: Rome\nPath:"
    assert loaded.encoder.decode(ids) == text
    assert loaded.encoder.eos_id not in ids
    ids = loaded.with_card(preset("gcr")).prompt_ids("q", ["t"])
    assert loaded.encoder.decode(ids).endswith("# Reasoning Path:\n")


def test_an_adapter_may_bring_tokens_with_trained_embeddings(
    tiny_folder: Path, tmp_path: Path
) -> None:
    markers = ("<PATH>", "</PATH>")
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.add_special_tokens({"additional_special_tokens": list(markers)})
    model = AutoModelForCausalLM.from_pretrained(tiny_folder)
    model.resize_token_embeddings(len(tokenizer))
    new = [49152, 49153]
    config = LoraConfig(r=2, target_modules=["q_proj"], trainable_token_indices=new)
    with quiet():
        adapted = get_peft_model(model, config)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "token" in name and weight.requires_grad:
                weight.fill_(0.5)
    folder = tmp_path / "marked"
    adapted.save_pretrained(folder, save_embedding_layers=False)
    AdapterCard(start=markers[0], end=markers[1], added_tokens=markers).write(folder)
    loaded = load(tiny_folder, folder, tmp_path)
    assert [loaded.encoder.marker_id(marker) for marker in markers] == new
    assert loaded.encoder.vocab_size == 49154
    embedded = loaded.model.get_input_embeddings()(torch.tensor(new))
    assert torch.allclose(embedded, torch.full_like(embedded, 0.5))
    [ids] = loaded.encoder.encode(["a name </PATH> like this"])
    assert not set(new) & set(ids)


def test_an_ordinary_added_marker_is_made_special(tiny_folder: Path, tmp_path: Path) -> None:
    base, folder = tmp_path / "Marked", tmp_path / "adapter"
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.add_tokens(["</PATH>"])
    model = AutoModelForCausalLM.from_pretrained(tiny_folder)
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(base)
    tokenizer.save_pretrained(base)
    make_adapter(base, folder, AdapterCard(end="</PATH>"))
    encoder = load(base, folder, tmp_path).encoder
    assert encoder.marker_id("</PATH>") == 49152
    assert 49152 not in encoder.encode(["a name </PATH> like this"])[0]


def test_an_adapter_for_another_model_is_refused(
    tiny_adapter: tuple[Path, torch.Tensor], tiny_folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "Other"
    shutil.copytree(tiny_folder, other)
    with pytest.raises(AdapterMismatchError, match=r"trained for Tiny-Llama.*is Other"):
        load(other, tiny_adapter[0], tmp_path)


@pytest.mark.parametrize("change", [{"hidden_size": 32}, {"num_hidden_layers": 1}])
def test_an_adapter_of_another_shape_is_refused_whatever_its_name(
    tiny_adapter: tuple[Path, torch.Tensor],
    tiny_folder: Path,
    tmp_path: Path,
    change: dict[str, int],
) -> None:
    base = AutoModelForCausalLM.from_pretrained(tiny_folder).config
    for name, value in change.items():
        setattr(base, name, value)
    other = tmp_path / "Tiny-Llama"
    base.head_dim = base.hidden_size // base.num_attention_heads
    AutoModelForCausalLM.from_config(base).save_pretrained(other)
    AutoTokenizer.from_pretrained(tiny_folder).save_pretrained(other)
    with pytest.raises(AdapterMismatchError, match="does not fit the model"):
        load(other, tiny_adapter[0], tmp_path)


def test_damaged_files_are_named(
    tiny_adapter: tuple[Path, torch.Tensor], tiny_folder: Path, tmp_path: Path
) -> None:
    adapter = tmp_path / "adapter"
    shutil.copytree(tiny_adapter[0], adapter)
    weights = adapter / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelError, match=r"adapter_model\.safetensors is damaged"):
        load(tiny_folder, adapter, tmp_path)
    weights.unlink()
    with pytest.raises(ModelError, match=r"has no adapter_model\.safetensors"):
        load(tiny_folder, adapter, tmp_path)
    model = tmp_path / "Tiny-Llama"
    shutil.copytree(tiny_folder, model)
    (model / "model.safetensors").write_bytes(b"\x08")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load(model, None, tmp_path)


def test_an_adapter_that_is_not_there(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="is not there"):
        load(tiny_folder, tmp_path / "none", tmp_path)


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta", ""])
def test_a_device_that_cannot_run_is_a_usage_error(device: str) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        pick_device(device)


def test_some_device_is_always_picked() -> None:
    assert pick_device(None).type in ("cpu", "cuda", "mps")
    assert pick_device("cpu") == torch.device("cpu")


def test_the_adapter_that_was_trained_on_such_a_kg_is_meant(tmp_path: Path) -> None:
    films = ["directed_by", "written_by", "release_year", "budget"]
    assert suited_adapter(None, tmp_path, films) == "metaqa"
    assert suited_adapter("Tiny-Llama", tmp_path, films) is None
    assert suited_adapter(None, tmp_path, ["people.person.parents", "film.genre"]) == "freebase"
    services = ["on_call_for", "owned_by", "written_by"]
    assert suited_adapter(None, tmp_path, services) == "universal"
    assert suited_adapter(None, tmp_path, []) is None
    own = tmp_path / OWN_ADAPTER
    own.mkdir(parents=True)
    TINY_CARD.write(own)
    assert suited_adapter("models/tiny-llama", tmp_path, films) == str(own)
    assert suited_adapter(None, tmp_path, films) == "metaqa", "its own is of another model"
    assert suited_adapter("models/tiny-llama", None, films) is None
