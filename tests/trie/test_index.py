"""The index on disk: what is read is what was written, or it is refused by name."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kgqa.errors import IndexMissingError, IndexStaleError, ShardDamagedError
from kgqa.graph.model import keys_array
from kgqa.graph.sqlite import SqliteStore
from kgqa.parallel import LocalExecutor
from kgqa.paths.walk import ordered, walk
from kgqa.trie.index import IndexWriter, index_folder, open_index
from kgqa.trie.index.writer import rebase_index
from kgqa.trie.lexicon import PathLexicon
from kgqa.trie.stored import path_tokens
from tests.trie import precomputed
from tests.trie.language import id_paths
from tests.trie.precomputed import CHARACTERS, FORM, KEY, RULES, stored, write_graph

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
        assert sorted(path for one in stored(index) for path in id_paths(one.table)) == id_paths(
            ordered(table)
        )
        assert index.look_up("nobody", 0) is None
        assert index.verify() == []
    assert result.paths == len(table)


def test_a_second_run_adds_nothing_and_others_only_the_rest(graph: Path, tmp_path: Path) -> None:
    with SqliteStore(graph) as store:
        keys = store.topic_keys()
    some, whole = tmp_path / "some", tmp_path / "whole"
    first = build(graph, some, topics=keys[10:60])
    assert (first.added, first.stored) == (50, 50)
    before = precomputed.files(some)
    assert build(graph, some, topics=keys[50:80]).added == 20
    del before["manifest.json"]
    assert before.items() < precomputed.files(some).items(), "shards that are there stay"
    rest = build(graph, some)
    assert rest.added == rest.stored - 70
    assert build(graph, some).added == 0
    build(graph, whole)
    assert precomputed.content(some) == precomputed.content(whole)
    assert precomputed.files(some) != precomputed.files(whole), "shards have other borders"


def test_what_the_manifest_does_not_name_is_swept_away(graph: Path, tmp_path: Path) -> None:
    build(graph, tmp_path)
    litter = index_folder(tmp_path, KEY) / ".shard-00009.parquet.123"
    litter.write_bytes(b"half a shard")
    build(graph, tmp_path)
    assert not litter.exists()


def test_two_processes_write_what_one_does(graph: Path, tmp_path: Path) -> None:
    build(graph, tmp_path / "one")
    build(graph, tmp_path / "two", executor=LocalExecutor(2))
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
            assert index.look_up(one, int(store.keys_of([one])[0])) is None
        for one in stored(index):
            table, _ = walk(store, store.keys_of([one.id]), RULES)
            assert len(one.table) == len(table) <= 8


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


def test_a_sample_of_an_earlier_version_serves_no_question(graph: Path, tmp_path: Path) -> None:
    sample = replace(KEY, walk="random", sample=20, seed=5)
    build(graph, tmp_path, key=sample, topics=keys_array([0]))
    with pytest.raises(IndexStaleError, match="sampled paths 20, not none"):
        open_index(tmp_path, KEY)


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
    writer = IndexWriter(
        tmp_path, newer, PathLexicon(CHARACTERS, FORM), cap=10_000, tokenizer_name="x"
    )
    assert writer.done() == set()
    with pytest.raises(IndexStaleError, match="KG version"):
        open_index(tmp_path, KEY)


SHARD = {"file": "shard-00000.parquet", "first": "a", "last": "b", "entities": 1, "paths": 1}
SHARD |= {"bytes": 1, "sha256": "", "dropped": {}}


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("key", {"hops": "two"}),
        ("key", {"direction": "up"}),
        ("cap", "many"),
        ("shards", [{}]),
        ("shards", [3]),
        ("shards", [SHARD | {"file": "../shard-00000.parquet"}]),
        ("shards", [SHARD | {"file": "/dev/zero"}]),
        ("shards", [SHARD | {"bytes": 1 << 60}]),
        ("composed", [1]),
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


def test_another_program_reads_the_paths_as_the_docs_show(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pyarrow and marisa_trie alone: nothing of kgqa is in what the docs run."""
    monkeypatch.setattr("kgqa.trie.index.shard.SMALL", 0)  # small ones have a list of texts
    build(graph, tmp_path)
    docs = (precomputed.CHECKOUT / "docs" / "tries.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", docs, re.DOTALL)
    assert "kgqa" not in code
    with open_index(tmp_path, KEY) as index, SqliteStore(graph) as store:
        shard = index.manifest.shards[1]
        found: dict[str, Any] = {
            "shard": index.folder / shard.file,
            "width": index.manifest.token_width,
        }
        exec(code, found)
        table, _ = walk(store, store.keys_of([shard.first]), RULES)
        tokens = path_tokens(store, table, PathLexicon(CHARACTERS, FORM))
        expected = [tokens[number] for number in range(len(table))]
        assert len(expected) > 1
        closing = index.manifest.closing
        assert sorted([*ids, closing] for ids in found["read"]) == sorted(expected)


def test_rows_that_a_change_of_the_graph_left_valid_are_kept(graph: Path, tmp_path: Path) -> None:
    build(graph, tmp_path, cap=8)
    folder = index_folder(tmp_path, KEY)
    with open_index(tmp_path, KEY) as index:
        before = {row.id: row.paths for row in stored(index)}
        first = index.shard(index.manifest.shards[0])
        gone = {*first.ids, *sorted(before)[40:43]}
    with SqliteStore(graph) as store:
        keys = store.keys_of(sorted(gone))
    assert rebase_index(folder, "v2", np.append(keys, 9_999)) == (
        len(before) - len(gone),
        len(gone),
    )
    newer = replace(KEY, kg_version="v2")
    with pytest.raises(IndexStaleError, match="KG version"):
        open_index(tmp_path, KEY)
    with open_index(tmp_path, newer) as index, SqliteStore(graph) as store:
        kept = {row.id: row.paths for row in stored(index)}
        assert kept == {id_: paths for id_, paths in before.items() if id_ not in gone}
        assert (index.manifest.entities, index.manifest.paths) == (len(kept), sum(kept.values()))
        assert index.manifest.composed == ()  # found again
        assert index.stored_ids() == kept.keys()
        for id_ in gone:
            assert index.look_up(id_, int(store.keys_of([id_])[0])) is None


def test_a_dropped_row_is_written_again_by_the_next_run(graph: Path, tmp_path: Path) -> None:
    build(graph, tmp_path)
    before = precomputed.content(tmp_path)
    version = KEY.kg_version
    with SqliteStore(graph) as store:
        keys = store.topic_keys()[30:34]
    assert rebase_index(index_folder(tmp_path, KEY), version, keys)[1] == 4
    assert build(graph, tmp_path).added == 4
    assert precomputed.content(tmp_path) == before


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
        for one in stored(index):
            table, _ = walk(store, store.keys_of([one.id]), RULES)
            assert one.paths == len(one.table) == len(table)


def test_what_is_kept_of_an_index_is_bounded(graph: Path, tmp_path: Path, monkeypatch) -> None:
    """A long run over a large index holds neither every file open nor every trie decoded."""
    build(graph, tmp_path, unit=3)
    monkeypatch.setattr("kgqa.trie.index.reader._OPENED", 3_000)
    monkeypatch.setattr("kgqa.trie.index.reader._KNOWN_PATHS", 30)
    with open_index(tmp_path, KEY) as index:
        keys = {one.id: one.key for one in stored(index)}
        assert len(index.manifest.shards) > 3
        for id_, key in [*keys.items(), *keys.items()]:
            found = index.look_up(id_, key)
            assert found is not None
            assert found.paths == len(found.table)
            assert sum(shard.bytes for shard in index._shards.values()) <= 3_000
            assert len(index._known) == 1 or index._known_paths <= 30
        assert index.look_up(id_, key) is index.look_up(id_, key)
