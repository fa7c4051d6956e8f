"""Draws the UMLS sample: rows of sources that are in the public domain, in Rich Release Format.

Only rows whose source is NCI (the NCI Thesaurus), what the release says about the two sources NCI
and MTH, and the Semantic Network are taken; people's addresses are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TABLES = ("MRCONSO", "MRREL", "MRSTY", "MRDEF", "MRSAB", "MRRANK", "MRCOLS", "MRFILES")
SOURCES = ("NCI", "MTH")


def _rows(folder: Path, table: str) -> list[list[str]]:
    text = (folder / f"{table}.RRF").read_text(encoding="utf-8")
    return [line.split("|") for line in text.splitlines()]


def write(shared: Path, target: Path) -> list[tuple[str, str, str]]:
    """Write META and NET; return the relations as triples: subject, RELA, object."""
    source = shared / "umls"
    names = [row for row in _rows(source, "MRCONSO") if row[11] == "NCI"]
    named = {row[0] for row in names}
    relations = [
        row
        for row in _rows(source, "MRREL")
        if row[10] == "NCI" and row[7] and {row[0], row[4]} <= named
    ]
    kept = {row[end] for row in relations for end in (0, 4)}
    about = []
    for row in _rows(source, "MRSAB"):
        if row[3] in SOURCES:
            row[11] = row[12] = ""  # SLC and SCC: names, addresses and telephone numbers
            about.append(row)
    files = [f"{table}.RRF" for table in TABLES]
    tables = {
        "MRCONSO": [row for row in names if row[0] in kept],
        "MRREL": relations,
        "MRSTY": [row for row in _rows(source, "MRSTY") if row[0] in kept],
        "MRDEF": [row for row in _rows(source, "MRDEF") if row[4] == "NCI" and row[0] in kept],
        "MRSAB": about,
        "MRRANK": [row for row in _rows(source, "MRRANK") if row[1] in SOURCES],
        "MRCOLS": [row for row in _rows(source, "MRCOLS") if row[6] in files],
    }
    (target / "META").mkdir(parents=True, exist_ok=True)
    (target / "NET").mkdir(parents=True, exist_ok=True)
    sizes = {}
    for table, rows in tables.items():
        data = "".join("|".join(row) + "\n" for row in rows).encode()
        (target / "META" / f"{table}.RRF").write_bytes(data)
        sizes[f"{table}.RRF"] = (len(rows), len(data))
    listed = [row for row in _rows(source, "MRFILES") if row[0] in sizes]
    for row in listed:
        row[4], row[5] = (str(size) for size in sizes[row[0]])
    contents = "".join("|".join(row) + "\n" for row in listed)
    (target / "META" / "MRFILES.RRF").write_text(contents, encoding="utf-8")
    for file in ("SRDEF", "SRSTR"):
        (target / "NET" / file).write_bytes((source / "NET" / file).read_bytes())
    # A row says of its second concept what it is to its first.
    return [(row[4], row[7], row[0]) for row in relations]
