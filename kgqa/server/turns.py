"""Whose turn it is: no client waits for all that another asked before."""

from __future__ import annotations

from collections import Counter


class Turns:
    """The clients' turns, by name. Whoever uses it holds a lock."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._last: dict[str, int] = {}  # when each client was served last

    def claim(self, client: str) -> tuple[int, int]:
        """Return a client's place in the order of turns: what it has running, its last turn."""
        return self._running[client], self._last.get(client, 0)

    def begin(self, client: str) -> None:
        """Note that something of a client runs."""
        self._last[client] = max(self._last.values(), default=0) + 1
        self._running[client] += 1

    def end(self, client: str) -> None:
        """Note that it has ended."""
        self._running[client] -= 1


def is_full(held: Counter[str], client: str, most: int) -> bool:
    """Return whether a client may put nothing more into a queue for ``most``.

    ``held``: the entries by client. A client with less than its share always finds room.
    """
    clients = len(+held) + (not held[client])
    return held.total() >= most and held[client] * clients >= most
