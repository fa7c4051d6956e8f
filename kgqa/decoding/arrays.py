"""Arrays of the host as tensors on a device, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

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


def on_host(tensor: torch.Tensor) -> Callable[[], NDArray[Any]]:
    """Begin to copy ``tensor`` to the host; return a function that waits for the array.

    On a GPU it waits for work that was begun before the copy, and for none that follows.
    """
    if tensor.device.type != "cuda":
        return tensor.cpu().numpy
    with torch.cuda.device(tensor.device):
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        copy.copy_(tensor, non_blocking=True)
        copied: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record()

    def wait() -> NDArray[Any]:
        """Wait for the copy, and return it."""
        copied.synchronize()
        array: NDArray[Any] = copy.numpy()
        return array

    return wait
