"""A data folder and the settings it is used with: which store, which account, which models."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.config import Settings, load_settings
from kgqa.errors import without_secrets
from kgqa.progress import Logged, Progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kgqa.graph.model import KGInfo
    from kgqa.graph.store import GraphStore
    from kgqa.methods.resources import Models

_GRAPH = "graph.sqlite"


class Home:
    """Where KGs are found and kept.

    ``home`` is the data folder, ``graph`` the store's URL and ``kg`` the KG that is meant; what is
    None is taken from the environment, then from the defaults. ``progress`` shows long tasks and
    notes; by default notes go to the logger ``kgqa``. ``models``: those that all sessions of this
    home share, which then belong in one thread. Raises UsageError for a malformed setting.
    """

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        graph: str | Path | None = None,
        kg: str | None = None,
        progress: Progress | None = None,
        models: Models | None = None,
    ) -> None:
        given = str(graph) if graph is not None else None
        self.named = str(home) if home is not None else None  # for commands that are suggested
        self.settings: Settings = load_settings(home=home, graph=given, kg=kg)
        self.progress: Progress = progress or Logged()
        self.models = models

    @classmethod
    def of(
        cls,
        kg: str | Path | None,
        *,
        home: str | Path | None = None,
        graph: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Home:
        """Return the home of a KG, a store's URL or a folder, as :func:`kgqa.open` takes them."""
        if kg is None:
            return cls(home, graph=graph, progress=progress)
        text, path = str(kg), Path(kg).expanduser()
        if "://" in text or path.is_file():
            return cls(home, graph=text, progress=progress)
        if (path / _GRAPH).is_file() and (isinstance(kg, Path) or len(path.parts) > 1):
            return cls(path.parent, kg=path.resolve().name, progress=progress)
        return cls(home, graph=graph, kg=text, progress=progress)

    @property
    def url(self) -> str | Path:
        """The store's URL, or the folder where KGs are kept in SQLite."""
        return self.settings.graph_url or self.settings.home

    @property
    def account(self) -> dict[str, str | None]:
        """The keyword arguments for opening a store: a server's account, and the home."""
        secret = self.settings.neo4j_password
        return {
            "username": self.settings.neo4j_username,
            "password": secret.get_secret_value() if secret else None,
            "database": self.settings.neo4j_database,
            "home": str(self.settings.home.absolute()),
        }

    def open_store(self) -> GraphStore:
        """Open the KG that the settings name, or the only one.

        Raises KGNotFoundError, StoreUnavailableError, and UsageError if there are several.
        """
        from kgqa.graph.open import open_store

        return open_store(self.url, self.settings.kg, **self.account)

    def kgs(self, faults: list[Any] | None = None) -> list[KGInfo]:
        """List the KGs; errors of unreadable ones, which are skipped, are added to ``faults``."""
        from kgqa.graph.open import list_kgs

        return list_kgs(self.url, faults=faults, **self.account)

    def folder(self, kg: str) -> Path:
        """Return the folder of a KG: its SQLite store, its tries, its rejected lines."""
        return self.settings.kg_folder(kg)

    def tries(self, kg: str) -> Path:
        """Return the folder of a KG's indexes."""
        return self.folder(kg) / "tries"

    def note(self, text: str) -> None:
        """Show an informational message to the user, without credentials."""
        self.progress.note(without_secrets(text))

    def build_command(self, options: Mapping[str, Any]) -> str:
        """Return the shell command that builds the index which ``options`` would use."""
        settings = self.settings
        graph = without_secrets(settings.graph) if settings.graph else None
        given = {"kg": settings.kg, "graph": graph, "home": self.named, **options}
        flags = [
            f"--{name.replace('_', '-')} {shlex.quote(str(value))}"
            for name, value in given.items()
            if value
        ]
        return " ".join(["kgqa precompute-tries", *flags])


def delete(
    kg: str,
    *,
    home: str | Path | Home | None = None,
    graph: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Delete a KG: its graph, its index, what it learned, its rejected lines.

    Of an attached database only the record of it is deleted, never the database. What is left by a
    deletion that was stopped is deleted by the same call. Returns ``{kg, graph, folder}``: what was
    deleted where, null for what there was not. Raises KGNotFoundError, UsageError, GraphError, and
    IngestError while another command writes to the KG.
    """
    from kgqa.files import writing
    from kgqa.graph.attached import RECORD_NAME, is_attached
    from kgqa.graph.open import store_backend
    from kgqa.graph.sqlite_file import FILE_NAME

    place = home if isinstance(home, Home) else Home(home, graph=graph, kg=kg, progress=progress)
    name = check_there(place, kg)
    folder = place.folder(name)
    account = {key: value for key, value in place.account.items() if key != "home"}
    backend = store_backend(place.url, **account)
    attached = is_attached(place.settings.home, name)
    there = False
    with writing(folder, name):
        if attached:
            (folder / RECORD_NAME).unlink()  # from here on it is gone, whatever stops the rest
        else:
            there = backend.delete(name, place.progress)
        kept = (folder / FILE_NAME).exists()
    if kept:
        place.note(
            f"{folder} stays: it has a KG of that name in SQLite. Delete that one, too, with "
            f"`graph` sqlite:///{place.settings.home}."
        )
    elif folder.is_dir():
        shutil.rmtree(folder)
    return {
        "kg": name,
        "graph": backend.url if there else None,
        "folder": None if kept else str(folder),
    }


def check_there(home: Home, kg: str) -> str:
    """Return the name of a KG of which at least a part exists.

    Raises KGNotFoundError, UsageError.
    """
    from kgqa.graph.backend import check_kg_name, choose_kg
    from kgqa.graph.open import store_backend

    name = check_kg_name(kg)
    if not home.folder(name).is_dir():  # else it may be damaged, or what is left of it
        choose_kg(home.kgs(), name, store_backend(home.url).url)
    return name
