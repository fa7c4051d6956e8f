"""Which device a model runs on."""

from __future__ import annotations

import torch

from kgqa.errors import UsageError, first_line


def pick_device(device: str | None) -> torch.device:
    """Return the device to run on; None: CUDA, otherwise MPS, otherwise the CPU.

    Raises UsageError if it does not exist or cannot be used.
    """
    if device is None:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        picked = torch.device(device)
        torch.empty(0, device=picked).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(
            f"The device {device!r} cannot be used: {first_line(error)}.",
            "Leave out `device`, or name cpu, cuda, cuda:1 or mps.",
        ) from None
    return picked
