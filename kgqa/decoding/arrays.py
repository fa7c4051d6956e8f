"""Arrays of the host, as tensors on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pinned(array: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Return a tensor of ``array`` that is copied to ``device`` without waiting for earlier work.

    A GPU copies memory that is not pinned only after all work before it.
    """
    tensor = torch.from_numpy(array)
    return tensor.pin_memory() if device.type == "cuda" else tensor


def on_device(array: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Return a tensor of ``array`` on ``device``, without waiting for a GPU's earlier work."""
    return pinned(array, device).to(device, non_blocking=True)
