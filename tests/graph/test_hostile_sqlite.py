"""SQLite files that somebody made by hand: each reading is right or ends in a named error."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sqlite3
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pytest

import kgqa
from kgqa.errors import KgqaError, StoreUnavailableError
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_file import EDGE, FILE_NAME
from kgqa.linking.linker import link

if TYPE_CHECKING:
    from pathlib import Path

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
EDGES = np.array([(4_000_000_000, 0, 1), (0, 9, 1)], EDGE)


def edges(row: int) -> str:
    packed = EDGES[row : row + 1].tobytes()
    return f"UPDATE edges_out SET edges = x'{packed.hex()}', crc = {crc32(packed)}"


def meta(**fields: object) -> str:
    pairs = ", ".join(f"'$.{name}', json('{json.dumps(value)}')" for name, value in fields.items())
    return f"UPDATE meta SET info = json_set(info, {pairs})"


NOT_READ = {  # refused when the file is opened
    "a view for a table": f"DROP TABLE meta; CREATE VIEW meta AS SELECT x AS info FROM ({ENDLESS})",
    "a view beside": f"CREATE VIEW other AS {ENDLESS}",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM entity; END",
    "a generated column": "ALTER TABLE entity ADD COLUMN x TEXT AS (hex(zeroblob(1000000)))",
    "a table is missing": "DROP TABLE relation",
    "another table": "DROP TABLE name_norm; CREATE TABLE name_norm (norm, key)",
    "full text elsewhere": "DROP TABLE entity_text; CREATE TABLE entity_text (name, aliases)",
    "deep JSON in meta": f"UPDATE meta SET info = '{'[' * 100_000}'",
    "a blob in meta": "UPDATE meta SET info = x'00ff'",
    "no meta": "DELETE FROM meta",
    "two metas": "INSERT INTO meta SELECT info FROM meta",
    "a name that is a path": meta(name="../../elsewhere"),
    "a name of another type": meta(name=["kg"]),
    "counts of another type": meta(edges="many"),
}
WRONG = {  # found when it is read
    "a blob for a name": "UPDATE entity SET name = x'ff00'",
    "a blob for an id": "UPDATE entity SET id = CAST(id AS BLOB)",
    "a text for a kind": "UPDATE entity SET kind = 'many'",
    "a kind that there is not": "UPDATE entity SET kind = 77",
    "a text for a degree": "UPDATE entity SET degree = 'many'",
    "deep JSON in aliases": f"UPDATE entity SET aliases = '{'[' * 100_000}'",
    "an object for aliases": "UPDATE entity SET aliases = '{\"a\": 1}'",
    "numbers for types": "UPDATE entity SET types = '[1, 2]'",
    "a list for properties": "UPDATE entity SET properties = '[1]'",
    "a blob for a relation": "UPDATE relation SET name = x'ff'",
    "a blob for a relation's id": "UPDATE relation SET id = x'ff'",
    "a text for edges": "UPDATE edges_out SET edges = 'abc'",
    "a text for a checksum": "UPDATE edges_out SET crc = 'abc'",
    "an edge of no relation": edges(0),
    "an edge to no kind": edges(1),
}


def test_a_forged_degree_is_no_fault_of_arithmetic(made: Path, tmp_path: Path) -> None:
    file = tampered(made, tmp_path, "UPDATE entity SET degree = -5")
    with SqliteStore(file) as store:
        assert store.degrees(np.arange(3)).tolist() == [0, 0, 0]
        assert [one.name for one in link(store, "Who does Ada know?")] == ["Ada"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "kg.tsv").write_text("Ada\tknows\tBob\nBob\tlives in\tRome\n")
    kgqa.ingest("triples", folder / "kg.tsv", kg="kg", home=folder)
    return folder / "kg" / FILE_NAME


def tampered(made: Path, folder: Path, script: str) -> Path:
    file = shutil.copy(made, folder / FILE_NAME)
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.executescript(script)
    return file


def edges_of(file: Path) -> set[tuple[int, int, int]]:
    with SqliteStore(file) as store:
        near = store.neighbours(np.arange(3), "both")
    return set(zip(near.row.tolist(), near.step.tolist(), near.target.tolist(), strict=True))


def read_all(file: Path) -> None:
    with SqliteStore(file) as store:
        keys = np.arange(3)
        readings = [
            lambda: store.keys_of(["Ada", "Bob"]),
            lambda: store.entities(keys),
            lambda: store.degrees(keys),
            lambda: store.find_names(["Ada", "Rome"]),
            lambda: store.suggest("Ada"),
            lambda: store.relations(),
            lambda: store.neighbours(keys, "both"),
            lambda: [store.details(key) for key in keys.tolist()],
        ]
        wrong = []
        for reading in readings:
            try:
                reading()
            except KgqaError as error:
                wrong.append(error)
        if wrong:
            raise wrong[-1]


def test_a_file_that_nobody_changed_is_read(made: Path, tmp_path: Path) -> None:
    read_all(tampered(made, tmp_path, "CREATE TABLE somebody_s_notes (text)"))


@pytest.mark.parametrize("script", NOT_READ.values(), ids=NOT_READ)
def test_a_file_of_other_tables_is_refused(made: Path, tmp_path: Path, script: str) -> None:
    file = tampered(made, tmp_path, script)
    with pytest.raises(StoreUnavailableError, match=r"damaged: .*[.] Load the KG again"):
        SqliteStore(file)


@pytest.mark.parametrize("script", WRONG.values(), ids=WRONG)
def test_values_of_other_types_are_named_errors(made: Path, tmp_path: Path, script: str) -> None:
    file = tampered(made, tmp_path, script)
    with pytest.raises(StoreUnavailableError, match="damaged"):
        read_all(file)


@pytest.mark.parametrize("count", [60, pytest.param(2_000, marks=pytest.mark.long)])
def test_changed_bytes_are_a_named_error_or_invent_no_edge(
    made: Path, tmp_path: Path, count: int
) -> None:
    dice = random.Random(count)
    written = edges_of(made)
    whole = made.read_bytes()
    for number in range(count):
        changed = bytearray(whole)
        for _ in range(dice.choice([1, 1, 4, 64])):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        if number % 3 == 2:  # of those beside each other, too
            at, some = dice.randrange(len(changed)), dice.randrange(1, 200)
            changed[at : at + some] = dice.randbytes(len(changed[at : at + some]))
        file = tmp_path / f"{number}.sqlite"
        file.write_bytes(changed)
        with contextlib.suppress(KgqaError):
            assert edges_of(file) <= written
        with contextlib.suppress(KgqaError):
            read_all(file)
        file.unlink()
