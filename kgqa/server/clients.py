"""Who asks: the keys of a server, each with the KGs that it opens and what it may ask for."""

from __future__ import annotations

import secrets
import tomllib
from contextvars import ContextVar
from pathlib import Path

from kgqa.errors import KgqaError, UsageError
from kgqa.registry import Options, option, validated


class Client(Options):
    """A key of the file of keys, by the name of its table."""

    key: str = option(..., "What the client sends.", min_length=16)
    name: str = option("", "The name in the log and in metrics.")
    kgs: tuple[str, ...] = option((), "The KGs that it opens; all if none is named.")
    questions: int | None = option(None, "Questions at a time, waiting ones included.", ge=1)
    per_minute: int | None = option(None, "Questions a minute.", ge=1)

    def opens(self, kg: str) -> bool:
        """Whether the client may see a KG."""
        return not self.kgs or kg in self.kgs


ANYBODY = Client(key="-" * 16)
asking: ContextVar[Client] = ContextVar("asking", default=ANYBODY)
"""The client whose request is being served."""


class Keys:
    """The keys of a server: ``key``, which opens all, and those of ``file``, a TOML file.

    Raises UsageError if the file cannot be used.
    """

    def __init__(self, key: str | None = None, file: str | Path | None = None) -> None:
        self.clients = [ANYBODY.model_copy(update={"key": key, "name": "key"})] if key else []
        if file is not None:
            self.clients += _read(Path(file).expanduser())

    def client(self, given: str) -> Client | None:
        """Return whose key it is, None if it is nobody's; anybody's if there are no keys."""
        match = None if self.clients else ANYBODY
        for client in self.clients:  # all of them, so that time says nothing
            if secrets.compare_digest(given.encode(), client.key.encode()):
                match = client
        return match


def _read(file: Path) -> list[Client]:
    form = 'It has tables such as [alice], each with key = "…".'
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not TOML"
        raise UsageError(f"The file of keys {file} cannot be read: {why}.", form) from None
    if not tables or not all(isinstance(table, dict) for table in tables.values()):
        raise UsageError(f"The file of keys {file} has no table for each client.", form)
    clients: list[Client] = []
    for name, table in tables.items():
        try:
            clients.append(validated(Client, {**table, "name": name}, f"the client {name}"))
        except KgqaError:  # its message may have the key
            known = ", ".join(field for field in Client.model_fields if field != "name")
            raise UsageError(
                f"The client {name} in the file of keys {file} is malformed.",
                f"A client has: {known}; a key has 16 characters or more.",
            ) from None
    if len({client.key for client in clients}) < len(clients):
        raise UsageError(f"Two clients in the file of keys {file} have the same key.")
    return clients
