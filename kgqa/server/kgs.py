"""The KGs that are served, as the store lists them now."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from kgqa.errors import KGNotFoundError, KgqaError, StoreUnavailableError, UsageError
from kgqa.server.guard import asking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kgqa.api import KG, Home

_LOG = logging.getLogger("kgqa.server")
_FRESH = 5.0  # seconds for which the list is believed


class ServedKgs:
    """The KGs that the server offers; ``home`` opens a home, ``names`` selects KGs (None: all)."""

    def __init__(self, home: Callable[..., Home], names: Sequence[str] = ()) -> None:
        self._home = home
        self._served = list(names)
        self._listed: tuple[float, dict[str, Any]] | None = None
        self._faults: list[KgqaError] = []  # of stores whose KGs are not listed
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise GraphError if the store cannot be read, or lacks a KG of ``names``."""
        self.all()
        for name in self._served:
            self.named(name)

    def all(self, *, again: bool = False) -> dict[str, Any]:
        """Return the meta records of the KGs that the client may access, by name.

        They are cached for a while; ``again``: read them now. Raises GraphError.
        """
        with self._lock:
            if again or self._listed is None or time.monotonic() - self._listed[0] > _FRESH:
                faults: list[KgqaError] = []
                infos = {info.name: info for info in self._home(None).kgs(faults)}
                for fault in faults:
                    _LOG.warning(str(fault))
                names = self._served or list(infos)
                infos = {name: infos[name] for name in names if name in infos}
                self._listed, self._faults = (time.monotonic(), infos), faults
            opens = asking.get().opens
            return {name: kg_info for name, kg_info in self._listed[1].items() if opens(name)}

    def named(self, name: str | None) -> str:
        """Return the name of the requested KG, by default of the only one.

        If a store cannot be read, the error says so; which store it is, is only for clients that
        may access every KG. Raises UsageError, GraphError.
        """
        names, client = list(self.all()), asking.get()
        if name in names:
            return str(name)
        for fault in self._faults:
            if not isinstance(fault, StoreUnavailableError):
                continue
            if client.opens_all:
                raise fault
            if name in client.kgs:
                raise StoreUnavailableError(
                    f"{name} cannot be read now.", "Try again later; the server's log says why."
                )
        listed = f"There is: {', '.join(names)}." if names else "Whoever runs the server loads one."
        if name is not None or not names:
            called = f"no KG named {name[:80]}" if name is not None else "no KG"
            raise KGNotFoundError(f"There is {called} here.", listed)
        if len(names) > 1:
            raise UsageError("Several KGs are served, and none is named.", f"Set `kg`. {listed}")
        return names[0]

    def is_replaced(self, kg: KG) -> bool:
        """Return whether the store has a newer version of a KG than the open one.

        An open store sees an update or a new load by itself, and an attached database is live.
        """
        try:
            if kg.is_live:
                return False
        except KgqaError:  # attached to another database, perhaps
            return True

        for again in (False, True):  # the list may be the older one
            before = kg.info.version
            listed = self.all(again=again).get(kg.name)
            if listed is None or listed.version in (before, kg.info.version):  # updated meanwhile
                return False
        return True
