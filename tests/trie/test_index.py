"""The index on disk: what is read is what was written, or it is refused by name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import IndexMissingError, IndexStaleError, ShardDamagedError
from kgqa.graph.model import keys_array
from kgqa.graph.sqlite import SqliteStore
from kgqa.paths.walk import PathTable, ordered, walk
from kgqa.trie.arrays import build_trie, in_order, sequences
from kgqa.trie.index import IndexWriter, index_folder, open_index
from kgqa.trie.index.shard import decode_row, encode_row
from kgqa.trie.stored import JoinedSequences, path_parts
from tests.trie import precomputed
from tests.trie.language import id_paths
from tests.trie.precomputed import KEY, RULES, write_graph

if TYPE_CHECKING:
    from pathlib import Path


NODES = 120
build = partial(precomputed.build, cap=10_000, unit=25)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "graph.sqlite"
    write_graph(path, NODES)
    return path


def test_the_result_counts_what_the_index_holds(graph: Path, tmp_path: Path) -> None:
    result = build(graph, tmp_path)
    assert result.entities == result.stored == result.added
    assert result.shards == 5
    with SqliteStore(graph) as store, open_index(tmp_path, KEY) as index:
        table, _ = walk(store, store.topic_keys(), RULES)
        stored = [index.look_up(one) for one in sorted(index.stored_ids())]
        assert [path for one in stored if one for path in id_paths(one.table)] == id_paths(
            ordered(table)
        )
        assert index.look_up("nobody") is None
        assert index.verify() == []
    assert result.paths == len(table)


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


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("key", {"hops": "two"}),
        ("key", {"direction": "up"}),
        ("cap", "many"),
        ("shards", [{}]),
        ("shards", [3]),
        ("composed", [1]),
        ("joining", {"examples": [{}]}),
        ("joining", 3),
    ],
)
def test_a_manifest_of_another_form_is_named(
    graph: Path, tmp_path: Path, part: str, wrong: Any
) -> None:
    """Even if its checksum fits."""
    build(graph, tmp_path, topics=keys_array([0]))
    path = index_folder(tmp_path, KEY) / "manifest.json"
    content = json.loads(path.read_text("utf-8"))
    del content["sha256"]
    content[part] = content[part] | wrong if part == "key" else wrong
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(content | {"sha256": digest}), "utf-8")
    with pytest.raises(ShardDamagedError, match=r"manifest\.json.*damaged") as caught:
        open_index(tmp_path, KEY)
    assert "--rebuild" in caught.value.hint
    assert "\n" not in caught.value.message


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
