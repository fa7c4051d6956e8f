"""A limit on the work for one question: long loops check it, and end when nobody waits any more."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def deadline(check: Callable[[], None] | None) -> Iterator[None]:
    """Have work inside the block call ``check`` now and then, which raises KgqaError to end it.

    What limits the block from outside holds, too. None adds no limit.
    """
    outer = _check.get()

    def both() -> None:
        for limit in (outer, check):
            if limit is not None:
                limit()

    before = _check.set(both)
    try:
        yield
    finally:
        _check.reset(before)


def check_deadline() -> None:
    """Raise the KgqaError of whatever limits this work, if its time is over."""
    if (check := _check.get()) is not None:
        check()
