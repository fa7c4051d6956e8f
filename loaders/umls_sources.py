"""The vocabularies of a UMLS release, of which a user may want some only.

What it does not do: leave rows out; that is whoever reads them.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from kgqa.errors import UsageError

if TYPE_CHECKING:
    from kgqa.loaders.rrf import Release

_SHOWN = 5


def read_sources(text: str) -> frozenset[str]:
    """Return the vocabularies of a list with commas. Raises UsageError where it names none.

    >>> sorted(read_sources("NCI, MSH"))
    ['MSH', 'NCI']
    """
    sources = frozenset(part.strip() for part in text.split(",")) - {""}
    if not sources:
        raise UsageError(
            "The list of UMLS sources is empty.", "Name vocabularies as MRSAB does: NCI,MSH."
        )
    return sources


def check_sources(sources: frozenset[str], release: Release) -> None:
    """Raise UsageError where the release's MRSAB does not know one of ``sources``."""
    there = {name for (name,) in release.rows("MRSAB", "RSAB")} - {""}
    unknown = sorted(sources - there)
    if not there or not unknown:
        return
    by_capitals = {name.upper(): name for name in sorted(there)}
    near = {
        by_capitals[match]
        for name in unknown
        for match in get_close_matches(name.upper(), by_capitals, n=_SHOWN, cutoff=0.5)
    }
    shown = sorted(near) or sorted(there)[: 2 * _SHOWN]
    raise UsageError(
        f"The release has no source {', '.join(unknown)}.",
        f"{'Near it' if near else 'Some that it has'}: {', '.join(shown)}."
        " All stand in MRSAB.RRF, column RSAB.",
    )
