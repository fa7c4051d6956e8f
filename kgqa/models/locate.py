"""From what a user calls a model to a folder on disk that holds it.

A name is, in this order: nothing (the offline default), a ``.gguf`` file, a folder, the name of a
model on the Hugging Face hub. The hub's local cache is looked at first; one short request then
tells whether the hub can be reached at all. ``HF_HUB_OFFLINE=1`` is respected.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kgqa.errors import ModelError, ModelNotFoundError
from kgqa.models.offline import SMOLLM, converted_gguf, smollm_folder

if TYPE_CHECKING:
    from kgqa.progress import Progress

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "*.tiktoken"]
_HUB_SECONDS = 5.0  # for the request that asks whether the hub knows the model
_QUANTISATION = re.compile(r"[-._](I?Q\d\w*|F16|BF16|F32)$", re.IGNORECASE)


class ModelFolder(NamedTuple):
    """A model on disk and the name under which adapters know it."""

    name: str
    folder: Path


def locate_model(model: str | None, cache: Path, progress: Progress) -> ModelFolder:
    """Return the folder of a model, fetching or converting it if need be.

    Raises ModelNotFoundError if there is no such model or it cannot be downloaded, ModelError if it
    is there and cannot be used.
    """
    if model is None or model == SMOLLM:
        return ModelFolder(SMOLLM, smollm_folder(cache, progress))
    path = Path(model).expanduser()
    if path.suffix == ".gguf":
        name = _QUANTISATION.sub("", path.stem)
        return ModelFolder(name, converted_gguf(path, cache, progress, name=name))
    if path.is_dir():
        return ModelFolder(path.resolve().name, _model_folder(path))
    hint = "Name a folder with config.json and safetensors, a .gguf file, or a hub name."
    if path.exists():
        raise ModelError(f"{path} is neither a folder nor a .gguf file.", hint)
    if not _HUB_NAME.fullmatch(model):
        raise ModelNotFoundError(f"There is no model folder {path}.", hint)
    return ModelFolder(model, _hub_folder(model, progress))


def same_base(trained_on: str, model: str) -> bool:
    """Whether an adapter trained on one name fits the model of another.

    The last part of the names decides, without case: ``HuggingFaceTB/SmolLM2-135M-Instruct`` is
    ``smollm2-135m-instruct`` wherever it lies.
    """
    last = [Path(name).name.casefold() for name in (trained_on, model)]
    return not trained_on or last[0] == last[1]


def _model_folder(folder: Path) -> Path:
    if (folder / "config.json").is_file():
        return folder
    if (folder / "adapter_config.json").is_file():
        raise ModelError(f"{folder} is an adapter, not a model.", f"Name {folder} as `adapter`.")
    raise ModelNotFoundError(
        f"The folder {folder} holds no model: it has no config.json.",
        "A model folder has config.json, the tokenizer's files and *.safetensors.",
    )


def _hub_folder(model: str, progress: Progress) -> Path:
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    from kgqa.models.pretrained import quiet

    try:
        cached = Path(snapshot_download(model, local_files_only=True, allow_patterns=_WANTED))
        if _is_whole(cached):
            return cached
    except (LocalEntryNotFoundError, OSError, ValueError):
        pass  # not in the cache: ask the hub
    elsewhere = (
        f"Put the model into a folder and name that as `model`, fetch it on a machine with a "
        f"network (`hf download {model}`) and copy the cache, or leave out `model` for {SMOLLM}."
    )
    if constants.HF_HUB_OFFLINE:
        raise ModelNotFoundError(
            f"The model {model} is not on this machine, and HF_HUB_OFFLINE forbids to fetch it.",
            "Unset HF_HUB_OFFLINE, or: " + elsewhere,
        )
    try:
        HfApi().model_info(model, timeout=_HUB_SECONDS)
        with progress.task(f"fetching {model}"), quiet():
            return _model_folder(Path(snapshot_download(model, allow_patterns=_WANTED)))
    except ModelError:
        raise
    except GatedRepoError:
        raise ModelNotFoundError(
            f"The model {model} is gated: its licence has to be accepted on the hub first.",
            "Accept it there and log in with `hf auth login`.",
        ) from None
    except RepositoryNotFoundError:
        raise ModelNotFoundError(
            f"There is no model {model}: no such folder here, and the hub knows none of that name.",
            "Check the name; a private model needs `hf auth login`.",
        ) from None
    except Exception as error:  # whatever the hub's HTTP client of this version raises
        raise ModelNotFoundError(
            f"The model {model} is not on this machine, and the hub cannot be reached or does not "
            f"give it ({type(error).__name__}).",
            elsewhere,
        ) from None


def _is_whole(folder: Path) -> bool:
    """Whether a snapshot can be loaded: an interrupted fetch leaves one without weights."""
    if not (folder / "config.json").is_file():
        return False
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = set(re.findall(r'"([^"/]+\.safetensors)"', index.read_text(encoding="utf-8")))
        return bool(shards) and all((folder / shard).is_file() for shard in shards)
    return (folder / "model.safetensors").is_file()
