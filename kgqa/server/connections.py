"""Connections that send nothing, or half a request, are closed, so that they cannot use all up."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

REQUEST_SECONDS = 20.0  # in which the head of a request must have come, or an answer be read
_SPARE_FILES = 64  # for models, stores and logs


class Connection(H11Protocol):
    """A connection of uvicorn's that ends if no request comes; of too many the idlest goes."""

    most: ClassVar[int] = 512

    @classmethod
    def limited_to(cls, most: int) -> type[Connection]:
        """Return the protocol with at most ``most`` connections, and never all open files."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        fewer = max(8, files // 2 - _SPARE_FILES)
        return type(cls.__name__, (cls,), {"most": min(most, fewer)})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and watch whether a request comes."""
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        held = [
            connection
            for connection in self.connections
            if isinstance(connection, Connection) and connection.is_open
        ]
        if len(held) > self.most:
            waiting = [connection for connection in held if connection.idle]
            min(
                waiting, key=lambda connection: connection._idle_since, default=self
            ).transport.abort()
        self._watch()

    @property
    def is_open(self) -> bool:
        """Whether it is not being closed."""
        return not self.transport.is_closing()

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        if not self.is_open:
            return
        now = self.loop.time()
        if not self.idle and not self.flow.write_paused:
            self._idle_since = now
        elif now - self._idle_since > REQUEST_SECONDS:
            self.transport.abort()
            return
        self.loop.call_later(REQUEST_SECONDS / 4, self._watch)
