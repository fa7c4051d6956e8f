"""A damaged index is harmless or refused by name: never another path, never a crash or a hang.

The damage is read in a process of its own, for what it could do is end the process.
"""

from __future__ import annotations

import faulthandler
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.errors import IndexFault, KgqaError, ShardDamagedError
from kgqa.graph.sqlite import SqliteStore
from kgqa.trie.index import index_folder, open_index
from kgqa.trie.index.reader import TrieIndex, all_manifests
from kgqa.trie.stored import stored_constraint
from tests.trie.language import id_paths
from tests.trie.precomputed import KEY, build, write_graph

if TYPE_CHECKING:
    from kgqa.trie.index.shard import StoredTrie

CAP = 24  # some entities of the graph have more paths
NODES = 160
SHARDS = 4
SECONDS = 120  # for one damaged index; reading it takes a fraction of one
DAMAGES = 200
KINDS = ["bit", "bit", "byte", "zeros", "cut", "gap", "longer"]


def damaged(whole: bytes, choose: random.Random) -> tuple[str, bytes]:
    """Some bytes that are not ``whole``, and in words what was done to it."""
    kind, at = choose.choice(KINDS), choose.randrange(len(whole))
    some = choose.randrange(1, 64)
    after = {
        "bit": lambda: bytes([whole[at] ^ 1 << choose.randrange(8)]) + whole[at + 1 :],
        "byte": lambda: bytes([(whole[at] + choose.randrange(1, 256)) % 256]) + whole[at + 1 :],
        "zeros": lambda: bytes(min(some, len(whole) - at)) + whole[at + some :],
        "cut": lambda: b"",
        "gap": lambda: whole[at + some :],
        "longer": lambda: choose.randbytes(some) + whole[at:],
    }[kind]()
    result = whole[:at] + after
    return f"{kind} at {at} of {len(whole)}", result if result != whole else whole[:-1]


def meaning(trie: StoredTrie | None) -> object:
    """All that an entity's look-up is good for: its paths, and the constraint made of it."""
    if trie is None or not len(trie.table):
        return None if trie is None else "no path"
    constraint = stored_constraint([(trie.sequences, trie.table)])
    leaves = np.flatnonzero(constraint.trie.leaf >= 0).tolist()
    return (
        id_paths(trie.table),
        constraint.trie.token.tolist(),
        constraint.trie.first_child.tolist(),
        [id_paths(constraint.ground(leaf)) for leaf in leaves],
    )


def look_up_all(tries: Path, ids: list[str], expected: dict[str, object]) -> set[str]:
    """Look every entity up in an index; return what came of it. Raises what opening it raises."""
    outcomes = set()
    with open_index(tries, KEY) as index:
        for one in ids:
            try:
                found = meaning(index.look_up(one))
            except ShardDamagedError as error:
                outcomes.add("refused" if "--rebuild" in error.hint else "without a hint")
                continue
            outcomes.add("same" if found == expected[one] else "WRONG")
        if {one for one in ids if index.is_composed(one)} != expected["composed"]:
            outcomes.add("WRONG")
    return outcomes


def read_damaged(home: Path, first: int, last: int) -> None:
    """Print for each damage, by its number, what it was and what came of it, as JSON lines."""
    tries = home / "tries"
    folder = index_folder(tries, KEY)
    with SqliteStore(home / "graph.sqlite") as store:
        ids = [*store.entities(store.topic_keys()).ids, "nobody"]
    with open_index(tries, KEY) as index:
        manifest = index.manifest
        expected: dict[str, object] = {one: meaning(index.look_up(one)) for one in ids}
        expected["composed"] = {one for one in ids if index.is_composed(one)}
    files = [folder / shard.file for shard in manifest.shards] + [folder / "manifest.json"]
    for number in range(first, last):
        choose = random.Random(number)
        path = files[number % len(files)]
        whole = path.read_bytes()
        what, changed = damaged(whole, choose)
        print(json.dumps([number, path.name, what]), flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        path.write_bytes(changed)
        try:
            outcomes = look_up_all(tries, ids, expected)
        except IndexFault as error:
            outcomes = {"refused" if error.hint else "without a hint"}
        except Exception as error:
            outcomes = {f"raised {type(error).__name__}: {error}"}
        if path.name == "manifest.json":
            [(_, found)] = all_manifests(tries)
            noticed = isinstance(found, KgqaError) or found == manifest
        else:
            with TrieIndex(folder, manifest) as index:
                noticed = any(path.name in fault for fault in index.verify())
        path.write_bytes(whole)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps([sorted(outcomes), noticed]), flush=True)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose entities share names, and its index of several shards."""
    folder = tmp_path_factory.mktemp("damage")
    graph = folder / "graph.sqlite"
    write_graph(graph, NODES)
    result = build(graph, folder / "tries", cap=CAP, unit=NODES // SHARDS)
    assert result.shards == SHARDS
    assert result.composed > 0
    return folder


def read_in_a_process(home: Path, first: int, last: int) -> list[tuple[str, list[str], bool]]:
    """What came of each damage: what it was, the outcomes, whether verifying noticed it."""
    code = (
        "import sys; from pathlib import Path; from tests.trie.test_damage import read_damaged; "
        "read_damaged(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(home), str(first), str(last)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=SECONDS * 4,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ended = f"ended with {done.returncode} at {lines[-1:]}:\n{done.stderr[-3000:]}"
    assert done.returncode == 0, ended
    assert len(lines) == 2 * (last - first), ended
    return [(str(lines[at]), *lines[at + 1]) for at in range(0, len(lines), 2)]


BATCH = 40


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(at, marks=pytest.mark.long if at else [], id=f"from {at}")
        for at in range(0, DAMAGES, BATCH)
    ],
)
def test_every_damage_is_harmless_or_refused_by_name(home: Path, first: int) -> None:
    came = read_in_a_process(home, first, first + BATCH)
    wrong = [one for one in came if not set(one[1]) <= {"same", "refused"}]
    assert not wrong
    assert not [one for one in came if not one[2]], "verifying overlooked a damage"
    # the damage is real: most of it is met, and what lies in other shards is still served
    assert sum("refused" in outcomes for _, outcomes, _ in came) > BATCH // 2
    assert any({"same", "refused"} <= set(outcomes) for _, outcomes, _ in came)


@pytest.mark.parametrize("shard", [True, False])
def test_a_file_that_is_gone_is_refused_by_name(home: Path, shard: bool) -> None:
    folder = index_folder(home / "tries", KEY)
    path = next(folder.glob("*.parquet")) if shard else folder / "manifest.json"
    aside = path.rename(home / "aside")
    try:
        with pytest.raises(IndexFault) as caught, open_index(home / "tries", KEY) as index:
            index.stored_ids()
        assert "kgqa precompute-tries" in caught.value.hint
    finally:
        aside.rename(path)
