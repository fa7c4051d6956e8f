"""Keeps the model libraries' own bars, notes and warnings off the user's terminal.

The command line has one seam for progress; a second one that draws over it helps nobody. Errors
still come through. What it does not do: touch any other library's logging.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from huggingface_hub.utils.tqdm import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from transformers import modeling_gguf_pytorch_utils as gguf_reader
from transformers.utils import logging

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


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
        vars(gguf_reader)["tqdm"] = _no_bar
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


def _no_bar(items: Iterable[Any], **_: object) -> Iterable[Any]:
    return items
