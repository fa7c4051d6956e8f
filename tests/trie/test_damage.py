"""A damaged or forged index is harmless or refused by name: never another path, crash or hang.

Every entity that is asked about gets the right answer, or one composed from the graph with the
name of what is wrong. The damage is read in a process of its own, for what it could do is end it.
Forged files have digests that fit: of other rows, of damaged marisa tries, of damaged Parquet.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgqa.answers.answer import TopicEntity
from kgqa.decoding.search import Hypothesis
from kgqa.errors import EmptyLanguageError, IndexFault, KgqaError, ShardDamagedError
from kgqa.graph.model import keys_array
from kgqa.graph.sqlite import SqliteStore
from kgqa.methods import grounding
from kgqa.methods.grounding import choose_constraint, ground_all
from kgqa.trie.composed import ComposedConstraint
from kgqa.trie.index import index_folder, open_index, shard
from kgqa.trie.index.marisa import trie_of
from kgqa.trie.index.reader import TrieIndex, all_manifests
from kgqa.trie.lexicon import PathLexicon
from tests.trie.precomputed import CHARACTERS, FORM, KEY, RULES, build, write_graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.trie.constraint import Constraint
    from kgqa.trie.index import Manifest, ShardRecord

CAP = 24  # some entities of the graph have more paths
NODES = 160
SHARDS = 4
SECONDS = 120  # for one damaged index; reading it takes a fraction of one
DAMAGES = 300
BATCH = 60
ASKED = 10  # entities that are asked about after each damage, most of the damaged shard
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


# ── forging ─────────────────────────────────────────────────────────────────────────────────────


def forged(rows: list[dict], firsts: list[int], choose: random.Random) -> str:
    """Change the rows of a shard; return in words how."""
    one, other = choose.sample(rows, 2)
    first = rows[choose.choice(firsts)]

    def swap(*names: str) -> None:
        for name in names:
            one[name], other[name] = other[name], one[name]

    def put(row: dict, name: str, value: object) -> None:
        row[name] = value

    def byte(row: dict, name: str) -> None:
        for _ in range(choose.choice([1, 1, 8])):
            row[name] = damaged(row[name], choose)[1]

    def other_keys() -> None:
        ends = {*firsts, len(rows)}
        group = range(rows.index(first), min(end for end in ends if end > rows.index(first)))
        count = sum(rows[at]["paths"] for at in group)
        size = choose.randrange(2, 6)
        rows_of = [bytes([at]) for at in range(len(group))]
        made = {choose.choice(rows_of) + choose.randbytes(size) for _ in range(count)}
        first["trie"] = trie_of(sorted(made)).tobytes()

    ways: dict[str, Callable[[], None]] = {
        "ids swapped": lambda: swap("id"),
        "keys swapped": lambda: swap("key"),
        "rows swapped": lambda: swap("id", "key"),
        "rows swapped, names too": lambda: swap("id", "key", "head"),
        "heads swapped": lambda: swap("head"),
        "counts swapped": lambda: swap("paths"),
        "a count that is absurd": lambda: put(one, "paths", choose.choice([-1, 1 << 40])),
        "a head that is absurd": lambda: put(one, "head", choose.choice([-1, 1 << 40])),
        "a dictionary that is another": lambda: byte(rows[0], "dictionary"),
        "a dictionary with absurd counts": lambda: put(
            rows[0], "dictionary", b"\xff" * 12 + rows[0]["dictionary"][12:]
        ),
        "a dictionary that is cut": lambda: put(
            rows[0], "dictionary", rows[0]["dictionary"][: choose.randrange(40)]
        ),
        "no trie": lambda: put(first, "trie", None),
        "no names": lambda: put(rows[0], "names", b""),
        "a trie of other paths": other_keys,
        "the trie of another group": lambda: put(
            first, "trie", rows[choose.choice(firsts)]["trie"]
        ),
        "names for paths": lambda: put(first, "trie", rows[0]["names"]),
        "paths for names": lambda: put(rows[0], "names", first["trie"]),
    }
    bytes_of = {"bytes of a trie": (first, "trie"), "bytes of names": (rows[0], "names")}
    ways |= {kind: functools.partial(byte, *which) for kind, which in bytes_of.items()}
    kind = choose.choice([*sorted(ways), *sorted(bytes_of) * 4])
    ways[kind]()
    return f"forged: {kind}"


def forge(folder: Path, manifest: Manifest, record: ShardRecord, choose: random.Random) -> str:
    """Write a shard with other content, whose digests fit, and enter it."""
    file = pq.ParquetFile(folder / record.file)
    sizes = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    rows = file.read().to_pylist()
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    what = forged(rows, starts, choose)
    groups = [(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    table = pa.Table.from_pylist(rows, schema=shard.SCHEMA)
    data = shard._parquet(table, groups, compression="zstd")
    (folder / record.file).write_bytes(data)
    enter(folder, manifest, record, data)
    return what


def enter(folder: Path, manifest: Manifest, record: ShardRecord, data: bytes) -> None:
    changed = replace(record, bytes=len(data), sha256=shard.hashlib.sha256(data).hexdigest())
    shards = [changed if one == record else one for one in manifest.shards]
    replace(manifest, shards=tuple(shards)).write(folder)


def odd_file(folder: Path, manifest: Manifest, record: ShardRecord, choose: random.Random) -> str:
    """Put something else in the place of a shard."""
    path, aside = folder / record.file, folder / "aside"
    kind = choose.choice(["link", "pipe", "folder", "name", "another shard"])
    if kind == "link":
        path.rename(aside)
        path.symlink_to(aside)
    elif kind == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif kind == "folder":
        path.unlink()
        path.mkdir()
    elif kind == "name":
        path.rename(folder.parent / "elsewhere.parquet")
        away = replace(record, file="../elsewhere.parquet")
        shards = tuple(away if one == record else one for one in manifest.shards)
        replace(manifest, shards=shards).write(folder)
    else:
        data = (folder / manifest.shards[0].file).read_bytes()
        path.write_bytes(data)
        if record != manifest.shards[0]:
            enter(folder, manifest, record, data)
    return f"instead of a file: {kind}"


# ── asking ──────────────────────────────────────────────────────────────────────────────────────


def hypotheses(constraint: Constraint) -> list[Hypothesis]:
    """All that a decoder may write."""
    found, waiting = [], [(constraint.start(), ())]
    while waiting:
        moves = constraint.expand([state for state, _ in waiting])
        following = []
        for row, token, state in zip(
            *map(list, (moves.row, moves.token, moves.state)), strict=True
        ):
            tokens = (*waiting[row][1], int(token))
            if constraint.is_end([int(state)])[0]:
                found.append(Hypothesis(int(state), tokens, 0.0))
            else:
                following.append((int(state), tokens))
        waiting = following
    return found


Shown = dict[tuple[int, ...], object]


class Asker:
    """Asks about entities of a graph as the method gcr does, for all their paths."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.lexicon = PathLexicon(CHARACTERS, FORM)
        keys = store.topic_keys().tolist()
        ids = store.entities(keys_array(keys)).ids
        self.topics = {
            id_: TopicEntity(key, id_, id_, 1.0) for id_, key in zip(ids, keys, strict=True)
        }
        self.right = {id_: self._composed(topic) for id_, topic in self.topics.items()}

    def _composed(self, topic: TopicEntity) -> Shown:
        try:
            constraint = ComposedConstraint(
                self.store, keys_array([topic.key]), RULES, self.lexicon
            )
        except EmptyLanguageError:
            return {}
        return self._shown(topic, constraint)[0]

    def _shown(self, topic: TopicEntity, constraint: Constraint) -> tuple[Shown, list[str]]:
        every = hypotheses(constraint)
        paths, notes = ground_all(self.store, constraint, self.lexicon, [topic.key], every)
        return {path.text: path.groundings for path in paths}, notes

    def outcome(self, id_: str, index: TrieIndex) -> str:
        """What came of asking: "same", "refused" for a composed answer with a note, or "WRONG"."""
        topic, right = self.topics[id_], self.right[id_]
        try:
            chosen = choose_constraint(self.store, [topic], RULES, self.lexicon, index)
        except EmptyLanguageError:
            return "WRONG: nothing" if right else "same"
        if {use.source for use in chosen.uses} == {"composed"}:
            named = any("precompute-tries" in note for note in chosen.notes)
            return "refused" if named else "same"  # an entity without paths has no trie
        try:
            shown, left_out = self._shown(topic, chosen.constraint)
        except ShardDamagedError as error:
            return "refused" if "--rebuild" in error.hint else "without a hint"
        if left_out:
            return "refused"
        return "same" if shown == right else f"WRONG: {len(shown)} of {len(right)} for {id_}"


def read_damaged(home: Path, first: int, last: int) -> None:
    """Print for each damage, by its number, what it was and what came of it, as JSON lines."""
    with SqliteStore(home / "graph.sqlite") as store:
        asker = Asker(store)
        for number in range(first, last):
            choose = random.Random(number)
            tries = home / ("listed" if number % 2 else "tries")
            folder = index_folder(tries, KEY)
            with open_index(tries, KEY) as index:
                manifest = index.manifest
            record = choose.choice(manifest.shards)
            grounding.LARGE = choose.choice([1, 5_000])
            kept = home / "kept"
            shutil.copytree(folder, kept)
            what, noticed = harm(folder, manifest, record, number, choose)
            print(json.dumps([number, record.file, what]), flush=True)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            near = [id_ for id_ in asker.topics if record.first <= id_ <= record.last]
            asked = choose.sample(near, ASKED) + choose.sample(sorted(asker.topics), 2)
            try:
                with open_index(tries, KEY) as index:
                    outcomes = {asker.outcome(id_, index) for id_ in asked}
            except IndexFault as error:  # answers are composed without an index
                outcomes = {"refused" if error.hint else "without a hint"}
            except Exception as error:
                outcomes = {f"raised {type(error).__name__}: {error}"}
            if noticed is None:  # whether verifying does
                with TrieIndex(folder, manifest) as index:
                    noticed = any(record.file in fault for fault in index.verify())
            shutil.rmtree(folder)
            (folder.parent / "elsewhere.parquet").unlink(missing_ok=True)
            kept.rename(folder)
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps([sorted(outcomes), noticed]), flush=True)


def harm(
    folder: Path, manifest: Manifest, record: ShardRecord, number: int, choose: random.Random
) -> tuple[str, bool | None]:
    """Do what a number says; return it in words, and whether it is noticed if that is known."""
    kind = number % 6
    if kind in (0, 1):
        return forge(folder, manifest, record, choose), True
    if kind == 2:
        return odd_file(folder, manifest, record, choose), True
    path = folder / (record.file if kind < 5 else "manifest.json")
    what, changed = damaged(path.read_bytes(), choose)
    path.write_bytes(changed)
    if kind == 3:
        enter(folder, manifest, record, changed)
        return f"forged: {what}", True
    if kind < 5:
        return what, None
    [(_, found)] = all_manifests(folder.parent)
    return f"{what} of the manifest", isinstance(found, KgqaError) or found == manifest


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose entities share names, and its index of several shards in either layout."""
    folder = tmp_path_factory.mktemp("damage")
    graph = folder / "graph.sqlite"
    write_graph(graph, NODES)
    for name, small in (("tries", 0), ("listed", 1 << 20)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shard, "SMALL", small)
            patch.setattr(shard, "ROWS_IN_GROUP", 16)
            result = build(graph, folder / name, cap=CAP, unit=NODES // SHARDS)
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


@pytest.mark.parametrize("of", ["a shard", "the manifest"])
def test_a_file_that_is_gone_is_refused_by_name(home: Path, of: str) -> None:
    folder = index_folder(home / "tries", KEY)
    path = next(folder.glob("*.parquet")) if of == "a shard" else folder / "manifest.json"
    aside = path.rename(home / "aside")
    try:
        with pytest.raises(IndexFault) as caught, open_index(home / "tries", KEY) as index:
            index.stored_ids()
        assert "kgqa precompute-tries" in caught.value.hint
    finally:
        aside.rename(path)
