"""A run that is killed at any moment is continued, and ends as if it had not been.

A process of its own builds an index of 10,000 entities and is killed by SIGKILL, at an event of a
step or a while after it; the moments are drawn by seed. The next one is killed too, and so on, and
the last is not.
"""

from __future__ import annotations

import json
import random
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.errors import IndexFault, IndexMissingError
from kgqa.graph.sqlite import SqliteStore
from kgqa.trie.index import open_index
from tests import kill
from tests.trie.precomputed import KEY, build, content, files, write_graph

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

ENTITIES = 10_000
MOMENTS = 30
DEFAULT = (3, 4, 5, 7)  # run without --full: around a shard, around the manifest, any time
KILLS = 2  # of each
STEPS = (
    "start",
    "before shard",
    "before shard rename",
    "after shard rename",
    "after shard",
    "before manifest rename",
    "after manifest rename",
    "start",
)
WORKERS = 2
MODULE = "tests.trie.precomputed"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "graph.sqlite"
    write_graph(path, ENTITIES)
    return path


@dataclass(frozen=True)
class Undisturbed:
    events: dict[str, int]
    content: object
    files: dict[str, bytes]


@pytest.fixture(scope="module")
def undisturbed(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    tries = tmp_path_factory.mktemp("undisturbed")
    done = run(graph, tries)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["added"] > 9_000
    assert set(printed["events"]) == set(STEPS)
    return Undisturbed(printed["events"], content(tries), files(tries))


def spec_of(graph: Path, tries: Path, **spec: Any) -> dict[str, Any]:
    return {"graph": str(graph), "tries": str(tries), **spec}


def run(graph: Path, tries: Path, **spec: Any) -> subprocess.CompletedProcess[str]:
    return kill.run(MODULE, spec_of(graph, tries, **spec))


@dataclass(frozen=True)
class Moment:
    """When a run is killed: at which share of a step's events, and how long after that."""

    number: int
    step: str
    share: float
    delay: float
    workers: int

    def __str__(self) -> str:
        later = f" and {self.delay * 1000:.0f} ms" if self.delay else ""
        return f"{self.number} {self.step} {self.share:.2f}{later}"


def moments() -> list[Moment]:
    dice = random.Random(2025)
    return [
        Moment(
            number,
            STEPS[number % len(STEPS)],
            dice.random(),
            dice.uniform(0, 0.5) if number % len(STEPS) == len(STEPS) - 1 else 0.0,
            WORKERS if number % 5 == 3 else 1,
        )
        for number in range(MOMENTS)
    ]


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(each, marks=[pytest.mark.long] if each.number not in DEFAULT else [])
        for each in moments()
    ],
    ids=str,
)
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(
    graph: Path, undisturbed: Undisturbed, tmp_path: Path, moment: Moment
) -> None:
    dice = random.Random(moment.number)
    share, kills = moment.share, 0
    for _ in range(KILLS):
        event = int(share * undisturbed.events[moment.step])
        when = {"step": moment.step, "event": event, "delay": moment.delay}
        done = run(graph, tmp_path, workers=moment.workers, **when)
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        kills += done.returncode != 0
        share = dice.random() / 2  # what is left to do has fewer events
        try:
            index = open_index(tmp_path, KEY)
        except IndexMissingError:
            assert moment.step == "start" or moment.step.endswith("manifest rename")
        else:
            with index:
                assert index.verify() == [], "an index that was left does not serve"
    assert kills, "nothing was killed"
    done = run(graph, tmp_path, workers=moment.workers)
    assert done.returncode == 0, done.stderr
    assert content(tmp_path) == undisturbed.content
    assert files(tmp_path) == undisturbed.files


def test_of_two_runs_at_once_the_second_is_refused_and_the_first_ends_well(
    graph: Path, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    hold = tmp_path / "hold"
    tries = tmp_path / "tries"
    first = kill.start(MODULE, spec_of(graph, tries, hold=str(hold)))
    try:
        while not hold.exists():
            assert first.poll() is None, first.communicate()[1]
            time.sleep(0.01)
        with pytest.raises(IndexFault, match="Another run is writing"):
            build(graph, tries)
    finally:
        hold.unlink(missing_ok=True)
        out, err = first.communicate(timeout=600)
    assert first.returncode == 0, err
    assert json.loads(out)["added"] > 9_000
    assert files(tries) == undisturbed.files
    assert build(graph, tries).added == 0, "a second run after the first has nothing to do"
    assert files(tries) == undisturbed.files


def test_other_entities_are_added_to_what_is_there(
    graph: Path, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    with SqliteStore(graph) as store:
        keys = store.topic_keys()
    some, others = keys[100:1_500], keys[1_400:2_900]
    first = build(graph, tmp_path, topics=some)
    before = files(tmp_path)
    second = build(graph, tmp_path, topics=others)
    assert (first.added, second.added) == (1_400, 1_400)
    after = files(tmp_path)
    assert {name: after[name] for name in before if name != "manifest.json"} == {
        name: data for name, data in before.items() if name != "manifest.json"
    }
    build(graph, tmp_path)
    assert content(tmp_path) == undisturbed.content
    assert files(tmp_path).keys() != undisturbed.files.keys(), "its shards have other borders"


def test_a_rebuild_that_is_killed_leaves_an_index_that_serves(
    graph: Path, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    build(graph, tmp_path)
    done = run(graph, tmp_path, rebuild=True, step="after manifest rename", event=0)
    assert done.returncode == -signal.SIGKILL
    with open_index(tmp_path, KEY) as index:
        assert index.verify() == []
    build(graph, tmp_path)
    assert files(tmp_path) == undisturbed.files
