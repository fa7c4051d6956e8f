"""A time limit inside a constraint: what may take long is cut into pieces, with a look between."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_look: ContextVar[Callable[[], None] | None] = ContextVar("look", default=None)


@contextmanager
def stopped_by(look: Callable[[], None]) -> Iterator[None]:
    """Let long work inside the block call ``look`` now and then, which raises to end it."""
    before = _look.set(look)
    try:
        yield
    finally:
        _look.reset(before)


def look() -> None:
    """Raise if the work that goes on has no time left."""
    if (found := _look.get()) is not None:
        found()
