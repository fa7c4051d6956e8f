"""Matrices packed for oneDNN, whose kernels are faster than those of PyTorch's BLAS on some CPUs.

Packing takes time, so it is for sessions that repay it (see :mod:`kgqa.decoding.probe`). The pages
of a weight that is mapped from a file are given back, so that it is not held twice.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import linear

if TYPE_CHECKING:
    from torch import Tensor


def can_pack() -> bool:
    """Whether this PyTorch has oneDNN's packed matrices."""
    torch_: Any = torch
    return torch_.backends.mkldnn.is_available() and all(
        hasattr(torch_.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise")
    )


def packed(weight: Tensor, tokens: int) -> Tensor:
    """Return ``weight`` ``[out, in]`` packed for about so many tokens at a time."""
    found: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, tokens)
    return found


def multiply(states: Tensor, weight: Tensor) -> Tensor:
    """Return ``states`` ``[tokens, in]`` times ``weight``, packed or not: ``[tokens, out]``."""
    if not weight.is_mkldnn:
        return linear(states, weight)
    found: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, None, "none", [], "")
    return found


def give_back(mapped: Tensor) -> None:
    """Let the system drop the pages of a weight that is mapped from a file and is not read again.

    Of any other weight this would lose the content.
    """
    advice = getattr(mmap, "MADV_DONTNEED", None)
    start = -(-mapped.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (mapped.data_ptr() + mapped.nbytes - start) // mmap.PAGESIZE * mmap.PAGESIZE
    if advice is not None and size > 0:
        with suppress(OSError, AttributeError):  # held twice then
            libc = ctypes.CDLL(None)
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), advice)
