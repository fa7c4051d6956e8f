"""Loading model folders with transformers: only files, never their code, without output.

This project reports progress itself; errors still come through.
"""

from __future__ import annotations

import json
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from huggingface_hub.utils.tqdm import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from safetensors import SafetensorError, safe_open
from transformers import modeling_gguf_pytorch_utils as gguf_reader
from transformers.utils import logging

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers")


def from_pretrained(kind: Any, folder: Path, **more: Any) -> Any:
    """Load ``kind``, an auto class of transformers, from ``folder``.

    All models and tokenizers are loaded through this function: nothing is downloaded, no Python
    file in the folder is run, no question about it is asked, and weights are never pickles. Raises
    ValueError for a folder that needs code of its own, and for damaged or hostile files
    :data:`LOADING_ERRORS`.
    """
    if "dtype" in more and "gguf_file" not in more:  # weights
        more["use_safetensors"] = True
        _check_layers(folder)
    try:
        return kind.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **more)
    except ValueError as error:
        if "trust_remote_code" not in str(error):
            raise
        raise ValueError("it needs Python code of its own, which is never run") from None


def _check_layers(folder: Path) -> None:
    """Raise ValueError if a config has more layers than the weights have tensors.

    A config with a thousand million layers would otherwise take all memory. Unreadable files pass.
    """
    layers, tensors = 0, 0
    with suppress(OSError, ValueError, RecursionError, AttributeError, SafetensorError):
        config = json.loads((folder / "config.json").read_text("utf-8"))
        parts = [config, *(one for one in config.values() if isinstance(one, dict))]
        counts = [part.get(name) for part in parts for name in _LAYERS]
        for file in folder.glob("*.safetensors"):
            with safe_open(file, "numpy") as opened:
                tensors += len(opened.keys())
        layers = max((one for one in counts if isinstance(one, int)), default=0)
    if tensors and layers > tensors:
        raise ValueError(
            f"its config.json has more layers than its weights have tensors ({tensors})"
        )


def with_adapter(model: Any, folder: Path, *, trainable: bool = False) -> Any:
    """Return ``model`` with the LoRA adapter in ``folder``; peft runs no code of the folder.

    ``trainable``: its weights may be trained.
    """
    from peft import PeftModel

    return PeftModel.from_pretrained(model, str(folder), is_trainable=trainable)


LOADING_ERRORS = (Exception,)  # files with fields of any type make a library raise anything


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers, the hub's client and Python warnings inside the block.

    The settings of the libraries are those of the process: for one thread at a time.
    """
    verbosity = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    hub_bars = not are_progress_bars_disabled()
    reader_bar = getattr(gguf_reader, "tqdm", None)  # asks no setting whether it may draw
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    disable_progress_bars()
    if reader_bar is not None:
        vars(gguf_reader)["tqdm"] = lambda items, **_: items
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
        if hub_bars:
            enable_progress_bars()
        if reader_bar is not None:
            vars(gguf_reader)["tqdm"] = reader_bar
