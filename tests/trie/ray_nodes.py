"""Workers on Ray that misbehave as they are told."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.graph.sqlite import SqliteStore
from tests.trie.precomputed import resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.trie.lexicon import PathLexicon


def resources_of(spec: dict[str, Any]) -> Callable[[], tuple[SqliteStore, PathLexicon]]:
    """What opens store and lexicon, with the misbehaviour that ``spec["make"]`` names."""
    folder = Path(spec["tries"]).parent
    return partial(_resources, Path(spec["graph"]), folder, spec["make"])


def _resources(graph: Path, folder: Path, make: str) -> tuple[SqliteStore, PathLexicon]:
    import ray

    if not ray.is_initialized():  # the driver, before it joins the cluster
        return resources(graph)
    if make == "dies" or (make == "dies once" and _first(folder / "died")):
        os._exit(1)
    if make == "sees nothing":
        return SqliteStore(folder / "elsewhere" / "graph.sqlite"), resources(graph)[1]
    return resources(graph)


def _first(path: Path) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
