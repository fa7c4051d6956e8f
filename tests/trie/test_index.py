"""The index on disk: what is read is what was written, or it is refused by name."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import IndexFault, IndexMissingError, IndexStaleError, ShardDamagedError
from kgqa.graph.model import keys_array
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.paths.walk import PathTable, walk
from kgqa.progress import Silent
from kgqa.trie.arrays import build_trie, in_order, sequences
from kgqa.trie.build import JoinedSequences, path_parts
from kgqa.trie.composed import ComposedConstraint
from kgqa.trie.index import IndexWriter, index_folder, open_index
from kgqa.trie.index.shard import decode_row, encode_row
from kgqa.trie.lexicon import PathLexicon
from kgqa.trie.stored import stored_constraint
from tests.graph.tables import entity, tables_of
from tests.trie import precomputed
from tests.trie.language import CharacterEncoder, id_paths, language
from tests.trie.precomputed import FORM, KEY, RULES

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.trie.index import TrieIndex

NODES = 120
build = partial(precomputed.build, cap=10_000, unit=25)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random graph whose entities share names."""
    choose = random.Random(7)
    nodes = [entity(f"e{at:03}", f"name {at % 90}") for at in range(NODES)]
    nodes += [entity("lonely", "Lonely")]
    edges = {
        (
            f"e{choose.randrange(NODES):03}",
            f"r{choose.randrange(4)}",
            f"e{choose.randrange(NODES):03}",
        )
        for _ in range(400)
    }
    path = tmp_path_factory.mktemp("graph") / "graph.sqlite"
    SqliteWriter(path).write(tables_of(nodes, sorted(edges)), Silent())
    return path


def content(index: TrieIndex, graph: Path) -> dict[str, set]:
    with SqliteStore(graph) as store:
        ids = store.entities(keys_array(range(NODES))).ids
    found = {one: index.look_up(one) for one in ids}
    return {one: set(id_paths(stored.table)) for one, stored in found.items() if stored}


def test_what_is_read_is_what_the_graph_holds(graph: Path, tmp_path: Path) -> None:
    result = build(graph, tmp_path)
    assert result.entities == result.stored == result.added
    assert result.shards == 5
    with SqliteStore(graph) as store, open_index(tmp_path, KEY) as index:
        lexicon = PathLexicon(CharacterEncoder(), FORM)
        for key in store.topic_keys().tolist():
            entity_id = store.entities(keys_array([key])).ids[0]
            stored = index.look_up(entity_id)
            assert stored is not None
            table, _ = walk(store, keys_array([key]), RULES)
            assert sorted(id_paths(stored.table)) == sorted(id_paths(table))
            if not len(table):
                continue
            from_shard = language(stored_constraint([(stored.sequences, stored.table)]))
            on_the_fly = ComposedConstraint(store, keys_array([key]), RULES, lexicon)
            assert from_shard == language(on_the_fly)
        assert index.look_up("nobody") is None
        assert index.verify() == []
    assert result.paths == sum(len(paths) for paths in content(index, graph).values())


def test_a_second_run_adds_nothing_and_a_wider_one_only_the_rest(
    graph: Path, tmp_path: Path
) -> None:
    first = build(graph, tmp_path, topics=keys_array([3, 70]))
    assert (first.added, first.stored) == (2, 2)
    rest = build(graph, tmp_path)
    assert rest.added == rest.stored - 2
    assert build(graph, tmp_path).added == 0
    with open_index(tmp_path, KEY) as index:
        assert len(index.stored_ids()) == rest.stored


def test_a_run_stopped_anywhere_is_continued(graph: Path, tmp_path: Path) -> None:
    """Stopped at each unit in turn, the finished index holds what an undisturbed one does."""
    build(graph, tmp_path / "whole")

    class StopError(Exception):
        pass

    class Stopping(IndexWriter):
        left = 2

        def add(self, rows, composed) -> None:
            if Stopping.left == 0:
                raise StopError
            Stopping.left -= 1
            super().add(rows, composed)

    stops = 0
    while True:
        Stopping.left = 2
        try:
            build(graph, tmp_path / "stopped", writer=Stopping)
            break
        except StopError:
            stops += 1
    assert stops == 2
    with open_index(tmp_path / "whole", KEY) as whole, open_index(tmp_path / "stopped", KEY) as got:
        assert content(whole, graph) == content(got, graph)


def test_what_the_manifest_does_not_name_is_swept_away(graph: Path, tmp_path: Path) -> None:
    build(graph, tmp_path)
    litter = index_folder(tmp_path, KEY) / ".shard-00009.parquet.123"
    litter.write_bytes(b"half a shard")
    build(graph, tmp_path)
    assert not litter.exists()


def test_two_processes_write_what_one_does(graph: Path, tmp_path: Path) -> None:
    build(graph, tmp_path / "one")
    build(graph, tmp_path / "two", workers=2)
    with open_index(tmp_path / "one", KEY) as one, open_index(tmp_path / "two", KEY) as two:
        assert [shard.sha256 for shard in one.manifest.shards] == [
            shard.sha256 for shard in two.manifest.shards
        ]


def test_a_second_run_at_the_same_time_is_refused(graph: Path, tmp_path: Path) -> None:
    writer = IndexWriter(tmp_path, KEY, cap=10, token_width=4, tokenizer_name="x")
    with writer, pytest.raises(IndexFault, match="Another run"):
        build(graph, tmp_path)


def test_an_entity_over_the_cap_is_composed_never_cut(graph: Path, tmp_path: Path) -> None:
    result = build(graph, tmp_path, cap=8)
    assert result.composed > 0
    with SqliteStore(graph) as store, open_index(tmp_path, KEY) as index:
        for one in index.manifest.composed:
            assert index.is_composed(one)
            assert index.look_up(one) is None
        for one in index.stored_ids():
            stored = index.look_up(one)
            table, _ = walk(store, store.keys_of([one]), RULES)
            assert stored is not None
            assert len(stored.table) == len(table) <= 8


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"kg_version": "v2"}, "KG version"),
        ({"tokenizer": "another"}, "tokenizer"),
        ({"path_format": "another"}, "path format"),
        ({"hops": 3}, "hops 2, not 3"),
        ({"direction": "both"}, "direction"),
        ({"mediators": "keep"}, "mediator rule"),
    ],
)
def test_an_index_for_something_else_is_refused_by_name(
    graph: Path, tmp_path: Path, changed: dict, named: str
) -> None:
    build(graph, tmp_path, topics=keys_array([0]))
    with pytest.raises(IndexStaleError, match=named) as caught:
        open_index(tmp_path, replace(KEY, **changed))
    assert "kgqa precompute-tries" in caught.value.hint


def test_an_index_in_an_older_format_is_refused_by_name(graph: Path, tmp_path: Path) -> None:
    build(graph, tmp_path, topics=keys_array([0]))
    path = index_folder(tmp_path, KEY) / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["sha256"]  # which that format had not
    path.write_text(json.dumps(manifest | {"schema": 1}))
    with pytest.raises(IndexStaleError, match="has format 1; this kgqa reads format") as caught:
        open_index(tmp_path, KEY)
    assert "kgqa precompute-tries" in caught.value.hint
    build(graph, tmp_path, topics=keys_array([0]))
    with open_index(tmp_path, KEY) as index:
        assert index.manifest.entities == 1


def test_no_index_is_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(IndexMissingError, match="no trie index"):
        open_index(tmp_path, KEY)


def test_an_index_of_an_older_kg_version_is_replaced(graph: Path, tmp_path: Path) -> None:
    build(graph, tmp_path)
    newer = replace(KEY, kg_version="v2")
    with IndexWriter(tmp_path, newer, cap=10_000, token_width=4, tokenizer_name="x") as writer:
        assert writer.done() == set()
    with pytest.raises(IndexStaleError, match="KG version"):
        open_index(tmp_path, KEY)


def test_every_damage_is_a_named_error_or_harmless(graph: Path, tmp_path: Path) -> None:
    """Flipped bytes and cuts anywhere in a shard never give another path than was written."""
    build(graph, tmp_path, topics=keys_array(range(60)), unit=60)
    with open_index(tmp_path, KEY) as index:
        expected = content(index, graph)
        (record,) = index.manifest.shards
    path = index_folder(tmp_path, KEY) / record.file
    whole = path.read_bytes()
    choose = random.Random(11)
    refused = 0
    for number in range(120):
        damaged = bytearray(whole)
        at = choose.randrange(len(whole))
        if number % 4 == 3:
            del damaged[at:]
        else:
            damaged[at] ^= 1 << choose.randrange(8)
        path.write_bytes(damaged)
        fault = None
        with open_index(tmp_path, KEY) as index:
            assert index.verify(), "a changed byte went unnoticed"
            try:
                assert content(index, graph) == expected
            except ShardDamagedError as error:
                fault = error
        if fault is not None:
            refused += 1
            assert record.file in str(fault)
            assert "kgqa precompute-tries" in fault.hint
    assert refused > 60


def test_a_damaged_manifest_is_named(graph: Path, tmp_path: Path) -> None:
    build(graph, tmp_path, topics=keys_array([0]))
    path = index_folder(tmp_path, KEY) / "manifest.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ShardDamagedError, match=r"manifest\.json"):
        open_index(tmp_path, KEY)


def test_shards_are_plain_parquet_for_other_tools(graph: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    build(graph, tmp_path)
    folder = index_folder(tmp_path, KEY)
    manifest = json.loads((folder / "manifest.json").read_text())
    for shard in manifest["shards"]:
        table = pq.read_table(folder / shard["file"])
        ids = table["id"].to_pylist()
        assert ids == sorted(ids)
        assert (ids[0], ids[-1]) == (shard["first"], shard["last"])
        assert np.sum(table["paths"].to_numpy()) == shard["paths"]


HOP = st.tuples(
    st.integers(0, 300),
    st.sampled_from([-1, 0, 255, 70_000]),
    st.integers(-1, 3),
    st.integers(0, 1 << 40),
)


@given(
    paths=st.lists(st.lists(HOP, min_size=1, max_size=3), max_size=12, unique_by=str),
    width=st.sampled_from([2, 4]),
    data=st.data(),
)
def test_a_row_is_read_as_it_was_written(paths: list, width: int, data: st.DataObject) -> None:
    """Any paths, whether or not the beginning of each is a path too, with any tokens."""
    hops = np.full((len(paths), 3, 4), -1, np.int64)
    for row, path in enumerate(paths):
        hops[row, : len(path)] = path
    length = np.array([len(path) for path in paths], np.int64)
    table = PathTable(np.full(len(paths), 9, np.int64), length, hops)
    parts = path_parts(table)
    token = st.integers(0, (1 << 8 * width) - 1)
    ids = [data.draw(st.lists(token, min_size=1, max_size=4)) for _ in range(parts.count)]
    joined = JoinedSequences(parts.number, sequences(ids))
    row = encode_row("e", 9, joined, table, width)
    read = decode_row(row, 3, width, "a shard")

    def content(of: JoinedSequences, table: PathTable) -> list:
        return sorted(
            (table.topic[at], table.length[at], table.hops[at].tolist(), of[at])
            for at in range(len(table))
        )

    assert content(read.sequences, read.table) == content(joined, table)
    assert row["nodes"] == build_trie(in_order(joined.joined())).nodes


def test_a_row_group_ends_when_it_has_many_paths(graph: Path, tmp_path: Path, monkeypatch) -> None:
    """A hub is not read along with every look-up near it."""
    import pyarrow.parquet as pq

    monkeypatch.setattr("kgqa.trie.index.shard.PATHS_IN_GROUP", 40)
    build(graph, tmp_path)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    for shard in folder.glob("*.parquet"):
        file = pq.ParquetFile(shard)
        for number in range(file.num_row_groups):
            group = file.read_row_group(number)["paths"].to_pylist()
            assert sum(group[:-1]) < 40
    with open_index(tmp_path, KEY) as index, SqliteStore(graph) as store:
        for one in index.stored_ids():
            row = index.read(one)
            table, _ = walk(store, store.keys_of([one]), RULES)
            assert row is not None
            assert row["paths"] == len(table)


def test_what_is_kept_of_an_index_is_bounded(graph: Path, tmp_path: Path, monkeypatch) -> None:
    """A long run over a large index holds neither every file open nor every trie decoded."""
    build(graph, tmp_path, unit=3)
    monkeypatch.setattr("kgqa.trie.index.reader._OPENED", 2)
    monkeypatch.setattr("kgqa.trie.index.reader._DECODED_PATHS", 30)
    with open_index(tmp_path, KEY) as index:
        ids = sorted(index.stored_ids())
        assert len(index.manifest.shards) > 3
        for id_ in ids * 2:
            row, stored = index.read(id_), index.look_up(id_)
            assert row is not None
            assert stored is not None
            assert len(stored.table) == row["paths"]
            assert len(index._shards) <= 2
            assert len(index._decoded) == 1 or index._decoded_paths <= 30
        assert index.look_up(ids[-1]) is index.look_up(ids[-1])
