"""Deleting a KG and everything that belongs to it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from kgqa.api.home import Home

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.progress import Progress


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
    from kgqa.graph.attached import RECORD_NAME, is_attached
    from kgqa.graph.files import writing
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
    """Return the name of a KG of which something is there. Raises KGNotFoundError, UsageError."""
    from kgqa.graph.backend import check_kg_name, choose_kg
    from kgqa.graph.open import store_backend

    name = check_kg_name(kg)
    if not home.folder(name).is_dir():  # else it may be damaged, or what is left of it
        choose_kg(home.kgs(), name, store_backend(home.url).url)
    return name
