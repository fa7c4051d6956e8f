"""The path ranker for the large encoder: what a GPU fitted, cut to few bytes.

The fit (LoRA of rank 32 on all-mpnet-base-v2, 1,500 steps of this folder's batches) takes 200
seconds on one GPU and cannot be made on a CPU. Its changes of weights are cut here to the sum of
ranks that fits the size wanted, those with the largest singular values (Eckart and Young,
Psychometrika 1936); what the ranker knows of other KGs is made as for the small one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kgqa.cli.terminal import TerminalProgress
from kgqa.config import Settings
from kgqa.models.large_encoder import LARGE
from kgqa.models.path_ranker import RankerCard, load_path_ranker, save_path_ranker
from scripts.universal.domains import DOMAINS, Domain
from scripts.universal.ranker import attributes, relations_elsewhere

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgqa.models.folders import Changes

FITTED = "models/mpnet-ranker/ranker-lora.safetensors"  # in the shared folder
_BEFORE, _DOWN, _UP = "base_model.model.", ".lora_A.default.weight", ".lora_B.default.weight"
_SCALING = 2.0  # alpha 64 over rank 32


def fitted_changes(file: Path) -> tuple[Changes, list[float]]:
    """Return the changes of weights that were fitted, and scale, none and the biases of hops."""
    from safetensors.numpy import load_file

    state = load_file(file)
    beside = [float(one) for one in state["beside"]]
    changes = {}
    for name in sorted(state):
        if name.endswith(_DOWN) and "pooler" not in name:  # which takes no part
            stem = name.removesuffix(_DOWN)
            up = state[stem + _UP].astype(np.float32) * _SCALING
            weight = f"{stem.removeprefix(_BEFORE)}.weight"
            changes[weight] = state[name].astype(np.float32), up
    return changes, beside


def cut(changes: Changes, most_bytes: int) -> Changes:
    """Return the changes with the singular values that say most for their bytes, float16."""
    parts: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}
    worth: list[tuple[float, int, str]] = []  # square for its numbers, numbers, name
    for name, (down, up) in changes.items():
        left, one = np.linalg.qr(up)
        right, other = np.linalg.qr(down.T)
        u, sizes, v = np.linalg.svd(one @ other.T)
        root = np.sqrt(sizes)
        parts[name] = (root[:, None] * (v @ right.T), left @ u * root)
        numbers = down.shape[1] + up.shape[0]
        worth += [(float(size) ** 2 / numbers, numbers, name) for size in sizes]
    kept = dict.fromkeys(parts, 0)
    taken = 0
    for _, numbers, name in sorted(worth, reverse=True):
        if taken + 2 * numbers <= most_bytes:
            taken += 2 * numbers
            kept[name] += 1
    return {
        name: (down[: kept[name]], up[:, : kept[name]])
        for name, (down, up) in parts.items()
        if kept[name]
    }


def train(data: Path, out: Path, most_bytes: int) -> None:
    """Write the ranker that was fitted, in the folder beside ``data``, into ``out``."""
    whole, (scale, none, *bias) = fitted_changes(data.parent / FITTED)
    changes = cut(whole, most_bytes)
    card = RankerCard(
        encoder=LARGE,
        scale=scale,
        none=none,
        hop_bias=tuple(bias),
        described={"domains": 100, "steps": 1500, "held_out": {"domains": 8, "trained": 75.9}},
    )
    cache = Settings().cache_folder  # type: ignore[call-arg]
    with tempfile.TemporaryDirectory() as begun:
        save_path_ranker(Path(begun), card, changes)
        ranker = load_path_ranker(begun, device=None, cache=cache, progress=TerminalProgress())
    domains = [Domain(file) for file in sorted(DOMAINS.glob("*.json"))]
    elsewhere = np.vstack([relations_elsewhere(ranker, domains), ranker.vectors(attributes())])
    save_path_ranker(out, card, changes, elsewhere)
