"""Whose turn it is: no client waits for all that another asked before."""

from __future__ import annotations

from collections import Counter


class Turns:
    """Schedules clients fairly, by name. Its caller holds a lock."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._last: dict[str, int] = {}  # when each client was served last

    def claim(self, client: str) -> tuple[int, int]:
        """Return a client's sort key, the lowest is next: its running work, then its last turn."""
        return self._running[client], self._last.get(client, 0)

    def begin(self, client: str) -> None:
        """Record that work of a client has begun."""
        self._last[client] = max(self._last.values(), default=0) + 1
        self._running[client] += 1

    def end(self, client: str) -> None:
        """Record that work of a client has ended."""
        self._running[client] -= 1


def is_full(held: Counter[str], client: str, most: int) -> bool:
    """Return whether a client may add nothing more to a queue of ``most`` entries.

    ``held``: the number of entries by client. A client with less than its share always finds room.
    """
    clients = len(+held) + (not held[client])
    return held.total() >= most and held[client] * clients >= most
