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
    """Limit the work inside the block: it calls ``check`` regularly, which raises KgqaError.

    Limits of enclosing blocks hold, too. None adds no limit.
    """
    outer = _check.get()

    def both() -> None:
        """Check the outer limit and this one."""
        for limit in (outer, check):
            if limit is not None:
                limit()

    before = _check.set(both)
    try:
        yield
    finally:
        _check.reset(before)


def check_deadline() -> None:
    """Raise the KgqaError of the limits around this work, if one is exceeded."""
    if (check := _check.get()) is not None:
        check()
