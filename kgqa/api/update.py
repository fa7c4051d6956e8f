"""A KG that changes: triples are added and removed in place."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.errors import KgqaError, UsageError
from kgqa.registry import LOADERS, Options, flag, taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.api.home import Home
    from kgqa.graph.change import GraphChange
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.loaders.base import Loader

_TABLES = (".tsv", ".jsonl", ".ndjson", ".parquet")  # no other loader's dumps end so
_NAMED = 3  # things that were not there that a note lists


class UpdateOptions(Options):
    """How a KG is changed, beside the options of the loader that reads the triples."""

    remove: list[Path] | None = flag(None, "File of triples to remove; may be given several times.")
    remove_names: Path | None = flag(
        None, "File of names to remove: an id, a tab and a name on each line."
    )
    loader: str | None = flag(
        None, "The loader that reads the files (default: the one that loaded the KG)."
    )


def update(
    home: Home, store: GraphStore, files: Sequence[Path], given: dict[str, Any]
) -> dict[str, Any]:
    """Change a KG; see :meth:`kgqa.KG.update`."""
    import json

    from kgqa.files import writing
    from kgqa.graph.open import open_changer
    from kgqa.loaders.tabular import MAPPING_FILE
    from kgqa.loading.update import update as run

    started = time.monotonic()
    how: UpdateOptions = taken(UpdateOptions, given, "an update")
    removed = [path.expanduser() for path in how.remove or ()]
    added = [path.expanduser() for path in files]
    names = given.pop("names", None)
    names = Path(names) if names is not None else None
    if not (added or removed or names or how.remove_names):
        raise UsageError(
            "There is nothing to add or to remove.", "Name a file of triples, or set `remove`."
        )
    kg = store.info.name
    with writing(home.folder(kg), kg):
        store.refresh()
        info = store.info
        changer = open_changer(home.url, store, **home.account)
        name = how.loader or _loader_for(info.loader, [*added, *removed])
        kept = json.loads(info.options or "{}") if name == info.loader else {}
        mapping = home.folder(kg) / MAPPING_FILE
        if name == info.loader == "tables" and mapping.exists():
            kept["mapping"] = mapping
        adding, removing = (
            _make_loader(name, {**kept, **given, **of}, names if of is _ADDING else None)
            for of in (_ADDING, _REMOVING)
        )
        index = _Indexes(home, store)
        result = run(
            store,
            changer,
            adding,
            removing,
            added,
            removed,
            home.folder(kg),
            home.progress,
            names=names,
            remove_names=how.remove_names,
            before=index.find,
        )
        index.rebase()
    store.refresh()
    if result.missing:
        more = len(result.missing) - _NAMED
        shown = "; ".join(result.missing[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        home.note(f"{len(result.missing):,} to remove were not in the graph: {shown}.")
    return {
        "kg": kg,
        "lines": result.lines,
        "added": result.added,
        "removed": result.removed,
        "entities": {"added": result.entities_added, "removed": result.entities_removed},
        "version": result.version,
        "index": {"kept": index.kept, "dropped": index.dropped},
        "rejected": result.rejected,
        "rejects_file": result.rejects_file,
        "seconds": round(time.monotonic() - started, 3),
        "dropped": result.dropped,
    }


_ADDING: dict[str, Any] = {}
_REMOVING: dict[str, Any] = {"types": None, "relation_names": None}  # those files say what is added


def _loader_for(own: str, files: Sequence[Path]) -> str:
    """Return the name of the loader for ``files``; ``own``: the one that the KG was loaded with.

    Files of triples are read as triples, unless ``own`` is ``tables``.
    """
    names = [path.name.lower() for path in files]
    for ending in (".gz", ".bz2", ".zst"):
        names = [name.removesuffix(ending) for name in names]
    tables = all(name.endswith(_TABLES) for name in names)
    if own == "tables":
        return own
    return "triples" if tables or not own or own == "text" else own


def _make_loader(name: str, given: dict[str, Any], names: Path | None) -> Loader:
    """Build a loader with its options, and with the file ``names`` if it takes one.

    Raises UsageError if it extracts triples by a model.
    """
    entry = LOADERS.entry(name)
    model = entry.options_model().model_fields
    if names is not None and "names" in model:
        given = {**given, "names": names}
    given = {key: value for key, value in given.items() if value is not None}
    of = entry.load()
    if getattr(of, "extracts", False):
        raise UsageError(
            f"A change is read from triples, and the loader {name} extracts them from texts.",
            "Write the triples to a file, and set `loader` to triples.",
        )
    loader: Loader = of(LOADERS.options(name, given))
    return loader


class _Indexes:
    """The trie indexes of a changing KG: which rows a change invalidates."""

    def __init__(self, home: Home, store: GraphStore) -> None:
        self._home = home
        self._store = store
        self._version = store.info.version
        self._affected: list[tuple[Path, IntArray]] = []
        self._changed = self._version
        self.kept = self.dropped = 0

    def find(self, change: GraphChange) -> None:
        """Find the indexes of the present version, and the rows that ``change`` invalidates.

        To be called before the change is applied.
        """
        from kgqa.paths.affected import affected
        from kgqa.trie.index.manifest import Manifest
        from kgqa.trie.index.reader import all_manifests

        self._changed = change.info.version
        edges: dict[Any, IntArray] = {}
        for folder, manifest in all_manifests(self._home.tries(self._store.info.name)):
            if isinstance(manifest, Manifest) and manifest.key.kg_version == self._version:
                rules = manifest.key.rules
                if rules not in edges:
                    edges[rules] = affected(self._store, change, rules)
                self._affected.append((folder, edges[rules]))

    def rebase(self) -> None:
        """Make the indexes valid for the new version, without the invalidated rows.

        An index for which that fails is noted, and left as it is.
        """
        from kgqa.trie.index.writer import rebase_index

        for folder, keys in self._affected:
            try:
                kept, dropped = rebase_index(folder, self._changed, keys)
            except (KgqaError, OSError) as error:
                self._home.note(f"The index {folder} does not fit any more: {error}")
                continue
            self.kept += kept
            self.dropped += dropped
