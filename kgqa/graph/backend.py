"""What a kind of store gives beside its ``GraphStore``: the KGs at one URL."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from kgqa.errors import KGNotFoundError, KgqaError, UsageError
from kgqa.registry import Options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from kgqa.graph.change import GraphChanger
    from kgqa.graph.model import KGInfo
    from kgqa.graph.store import GraphStore, GraphWriter
    from kgqa.progress import Progress

_NAME = re.compile(r"\w[\w.-]{0,99}")
_RESERVED = ("cache", "dumps")  # folders of the home that hold no KG


class StoreOptions(Options):
    """The options of a store type that has none."""


class StoreBackend(ABC):
    """The KGs at one URL of a store type. Raises UsageError if the URL is malformed."""

    Options: ClassVar[type[Options]] = StoreOptions
    url: str  # without credentials
    full_url: str  # leads to the same place from any working folder; may hold credentials
    home: Path | None = None  # the folder of KGs that the URL names
    holds_one: bool = False  # whether the URL names a KG, not a place of several

    @abstractmethod
    def __init__(self, url: str, options: Any) -> None: ...

    @abstractmethod
    def list_kgs(self, faults: list[KgqaError] | None = None) -> list[KGInfo]:
        """Return the KGs; ``faults`` gets unreadable ones' errors. Raises StoreUnavailableError."""

    @abstractmethod
    def open(self, kg: str | None = None) -> GraphStore:
        """Open the KG named ``kg``, or the only one (:func:`choose_kg`); the caller closes it."""

    def changer(self, store: GraphStore) -> GraphChanger:
        """Return the object that changes an open KG of this backend. Raises UsageError."""
        raise UsageError(
            f"A KG in {self.url} cannot be changed in place.", "Load it again with `kgqa ingest`."
        )

    def delete(self, kg: str, progress: Progress) -> bool:
        """Delete a KG, even a damaged one; return whether it existed.

        Raises UsageError, StoreUnavailableError, GraphError.
        """
        raise UsageError(f"A KG in {self.url} cannot be deleted by kgqa.")

    @abstractmethod
    def writer(self, kg: str) -> AbstractContextManager[GraphWriter]:
        """Return a context that gives the writer of ``kg``. Raises UsageError."""


def check_kg_name(kg: str) -> str:
    """Return ``kg`` if it is a valid KG name in every store, else raise UsageError."""
    if not is_kg_name(kg) or kg.endswith(".") or kg.casefold() in _RESERVED:
        raise UsageError(
            f"{kg!r} cannot name a KG.",
            "A name has letters, digits, '_', '-' and '.', starts with neither of the last two, "
            f"and is not one of: {', '.join(_RESERVED)}.",
        )
    return kg


def is_kg_name(kg: str) -> bool:
    """Return whether ``kg`` is a valid KG name, usable as one folder's name."""
    return _NAME.fullmatch(kg) is not None


HOW_TO_LOAD = (
    "Load yours with `kgqa ingest triples FILE` or `kgqa ingest tables FOLDER`, or the bundled "
    "sample with `kgqa ingest freebase`."
)


def choose_kg(infos: Sequence[KGInfo], kg: str | None, where: str) -> KGInfo:
    """Return the KG named ``kg``, or the only one of ``infos``. Raises KGNotFoundError, UsageError.

    ``where``: the place that the errors name.
    """
    names = ", ".join(sorted(info.name for info in infos))
    if not infos:
        what = f"no KG named {kg}" if kg else "no KG"
        raise KGNotFoundError(f"There is {what} in {where}.", HOW_TO_LOAD)
    if kg is not None:
        for info in infos:
            if info.name == kg:
                return info
        raise KGNotFoundError(
            f"{where} has no KG named {kg}, only {names}.",
            "Name one of them with `kg`, or load it with `kgqa ingest`.",
        )
    if len(infos) > 1:
        raise UsageError(f"There are several KGs in {where}: {names}.", "Choose one with `kg`.")
    return infos[0]
