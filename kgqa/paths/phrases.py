"""The phrases of a KG's relations: the user's, the bundled ones of its schema, or name words.

A file of phrases has a line for each relation: its id, a tab, its phrase, which stands between what
it leads from and what it leads to, and perhaps more phrases with tabs between them. Ranking reads
the first one; questions are made of all.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kgqa.errors import DataError
from kgqa.files import read_list, write_whole
from kgqa.paths.words import relation_phrase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.store import GraphStore

PHRASES_FILE = "phrases.tsv"  # in a KG's folder, and beside bundled data
_DATA = Path(__file__).parent.parent / "data"
_SCHEMAS = ("conceptnet", "umls")  # loaders whose relations have bundled phrases


def phrases_of(store: GraphStore, folder: Path | None) -> list[tuple[str, ...]]:
    """Return the phrases of each relation, by its key, at least one. Raises DataError.

    The user's own come first, then bundled ones, then the words of its name. ``folder``: that of
    the KG, which may hold the user's own; None: none.
    """
    relations = store.relations()
    own = folder / PHRASES_FILE if folder is not None else None
    given = read_phrases(own) if own is not None and own.is_file() else {}
    known: dict[str, tuple[str, ...]] = {}
    if store.info.loader in _SCHEMAS:
        bundled = read_phrases(_DATA / store.info.loader / PHRASES_FILE)
        known = {name.lower(): phrases for name, phrases in bundled.items()}
    return [
        given.get(id_) or known.get(name.lower()) or (relation_phrase(name),)
        for id_, name in zip(relations.ids, relations.names, strict=True)
    ]


def read_phrases(file: Path) -> dict[str, tuple[str, ...]]:
    """Parse a phrases file to phrases by relation id; empty lines and # comments are skipped.

    Raises DataError, which names the line, for a relation without a phrase or an unreadable file.
    """
    by_relation: dict[str, tuple[str, ...]] = {}
    try:
        lines = read_list(file).split("\n")  # names may hold other separators
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"The phrases {file} cannot be read: {why}.") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        relation, *phrases = (" ".join(part.split()) for part in line.split("\t"))
        if not (kept := tuple(filter(None, phrases))):
            raise DataError(
                f"{file}, line {number}: '{relation}' has no phrase.",
                "A line is a relation, a tab and its phrase, such as: onCallEngineer<tab>is on "
                "call for.",
            )
        by_relation[relation] = kept
    return by_relation


def write_phrases(file: Path, store: GraphStore, phrases: Sequence[tuple[str, ...]]) -> None:
    """Write the phrases of each relation, by key, to ``file``; replaces it. Raises DataError."""
    lines = ["# relation, tab, phrase (read between head and tail), tab, more phrases"]
    lines += [
        "\t".join((id_, *phrase))
        for id_, phrase in zip(store.relations().ids, phrases, strict=True)
    ]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, ("\n".join(lines) + "\n").encode())
    except OSError as error:
        raise DataError(f"The phrases cannot be written to {file}: {error.strerror}.") from None
