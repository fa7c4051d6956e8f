"""A store as another package would bring it: KGs in this process, at ``memory://SHELF``."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from kgqa.errors import UsageError
from kgqa.graph.backend import StoreBackend, StoreOptions, choose_kg
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.registry import option

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.errors import KgqaError
    from kgqa.graph.model import KGInfo


class MemoryOptions(StoreOptions):
    token: str = option("", "What opens the shelf.")


class MemoryStores(StoreBackend):
    """The KGs on one shelf; ``shelves`` says in which folder its files are."""

    Options = MemoryOptions
    shelves: ClassVar[dict[str, Path]] = {}

    def __init__(self, url: str, options: MemoryOptions) -> None:
        self.url = self.full_url = url
        self.folder = self.shelves[url.removeprefix("memory://")]
        if options.token != "sesame":
            raise UsageError("The shelf is closed.", "Give `token`.")

    def list_kgs(self, faults: list[KgqaError] | None = None) -> list[KGInfo]:
        infos = []
        for path in sorted(self.folder.glob("[!.]*")):
            with SqliteStore(path) as store:
                infos.append(store.info)
        return infos

    def open(self, kg: str | None = None) -> SqliteStore:
        return SqliteStore(self.folder / choose_kg(self.list_kgs(), kg, self.url).name)

    @contextmanager
    def writer(self, kg: str) -> Iterator[SqliteWriter]:
        yield SqliteWriter(self.folder / kg)
