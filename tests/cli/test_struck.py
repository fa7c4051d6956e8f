"""Every command that writes, struck by a fault at some moment: killed, a full disk, another beside.

Whatever strikes, what is seen is the old or the new, an error is one line, and the same command
given again ends as if nothing had been. The moments are drawn by seed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import runpy
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.errors import KGNotFoundError, ModelError, ModelNotFoundError
from kgqa.evaluation.record import read_run
from kgqa.graph.attached import RECORD_NAME, SurveyFile, read_attachment
from kgqa.graph.open import open_store
from kgqa.graph.sqlite_file import FILE_NAME
from kgqa.models.adapter import ADAPTERS, CARD_FILE
from kgqa.models.path_ranker import CARD_FILE as RANKER_CARD
from kgqa.models.path_ranker import (
    OWN_RANKER,
    RANKERS,
    RankerCard,
    ranker_changes,
    save_path_ranker,
)
from kgqa.trie.index.manifest import Manifest
from kgqa.trie.index.reader import TrieIndex, all_manifests
from tests.cli.conftest import Outcome
from tests.cli.test_ingest_text import HERON, LARK, NOTES, NOWHERE, known
from tests.cli.test_own_graph import PEOPLE, SERVICES, TEAMS
from tests.graph.neo4j_server import CHECKOUT
from tests.graph.sparql_server import serving
from tests.methods.reasoners import encoder_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Kgqa

pytestmark = [
    pytest.mark.model,
    pytest.mark.usefixtures("minilm"),
    pytest.mark.skipif(sys.platform != "linux", reason="faults are made by means of Linux"),
]

KG = "services"
LINES = 20_000  # of a dump
KILLS = 30  # of each command
USUAL = ("ingest freebase", "update", "learn", "train kg-cot", "eval")  # without --full
KILLED: dict[str, tuple[int, ...]] = dict.fromkeys(USUAL, (1,))  # the kills without --full
KILLED |= {"ingest freebase": (0, 2, 4), "precompute-tries": (1, 2)}


RENAMED = ("ingest", "update", "attach again", "rm")  # at every rename without --full


class Faults:
    """The process whose children are struck."""

    def __init__(self, folder: Path, cache: Path, **env: str) -> None:
        self._folder = folder
        self._number = 0
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("KGQA_", "NEO4J_"))}
        ours = {"KGQA_CACHE": str(cache), "KGQA_DEVICE": "cpu", "PYTHONPATH": str(CHECKOUT)}
        ours["OPENAI_BASE_URL"] = NOWHERE  # whose replies are kept
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.struck"],
            cwd=CHECKOUT,
            env={**kept, **ours, **env, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _asked(self, spec: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(spec), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def start(self, args: list[str], watch: Path, **fault: Any) -> tuple[int, Path]:
        self._number += 1
        out = self._folder / str(self._number)
        spec = {"args": args, "watch": [str(watch)], "out": str(out), "fault": "none", **fault}
        return self._asked(spec), out

    def end(self, started: tuple[int, Path]) -> tuple[Outcome, int]:
        """Wait; return what the command did, and its number of moments."""
        process, out = started
        code = self._asked({"wait": process})
        error, _, moments = (out.parent / f"{out.name}.err").read_text("utf-8").rpartition("\n")
        done = Outcome(code, out.read_text("utf-8"), error)
        return done, int(moments) if moments.isdecimal() else -1

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(60)


@pytest.fixture(scope="module")
def faults(model_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    found = Faults(tmp_path_factory.mktemp("faults"), model_cache)
    yield found
    found.close()


@dataclass(frozen=True)
class Command:
    """A command that writes: what it begins with, its arguments, what is seen of its result.

    ``seen`` raises if that is neither whole nor absent, and tells what is whole from another.
    """

    name: str
    begins: str  # the folder of what is there before
    args: tuple[str, ...]
    seen: Callable[[Path], object]
    little: bool = False


def kg_seen(home: Path) -> object:
    try:
        store = open_store(home, KG, home=home)
    except KGNotFoundError:
        return None
    with store:
        for folder, manifest in all_manifests(home / KG / "tries"):
            assert isinstance(manifest, Manifest), "a manifest is whole"
            with TrieIndex(folder, manifest) as index:
                assert index.verify() == []
        return store.info.version, content(home)


def content(home: Path) -> str:
    """Return a hash over all that a KG's file holds."""
    digest = hashlib.sha256()
    with closing(sqlite3.connect(home / KG / FILE_NAME)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        tables = db.execute(
            "SELECT name, sql FROM sqlite_master WHERE sql NOT LIKE '%VIRTUAL%' ORDER BY name"
        ).fetchall()
        assert len(tables) > 7
        for name, sql in tables:
            digest.update(f"{name} {sql}\n".encode())
            if sql.startswith("CREATE TABLE"):
                for row in db.execute(f'SELECT * FROM "{name}"'):
                    digest.update(repr(row).encode())
    return digest.hexdigest()


def index_seen(home: Path) -> object:
    kg_seen(home)
    for folder, manifest in all_manifests(home / KG / "tries"):
        assert isinstance(manifest, Manifest)
        return sorted((path.name, path.read_bytes()) for path in folder.iterdir())
    return None


def ranker_seen(home: Path) -> object:
    folder = home / KG / OWN_RANKER
    if not (folder / RANKER_CARD).exists():  # which is what a method looks for
        return None
    card = RANKERS.card(folder)
    return card.described, {
        n: (a.tobytes(), b.tobytes()) for n, (a, b) in ranker_changes(str(folder)).items()
    }


def reasoner_seen(home: Path) -> object:
    from kgqa.models.graph_reasoner_card import REASONERS

    try:
        card = REASONERS.card(home / "out")
    except ModelNotFoundError:
        return None
    state = REASONERS.weights(home / "out", card.weights)
    return {name: value.tolist() for name, value in state.items()}


def attached_seen(home: Path) -> object:
    folder = home / "shop"
    if not (folder / RECORD_NAME).exists():
        return None
    record = replace(read_attachment(folder), attached="")
    with SurveyFile(folder) as survey:
        assert survey.query("PRAGMA integrity_check") == [("ok",)]
    with open_store(home, "shop", home=home) as store:
        return record, store.entities(store.keys_of(["http://x/a"])).names


def adapter_seen(home: Path) -> object:
    from safetensors.torch import load_file

    out = home / "out"
    if not (out / CARD_FILE).exists():
        with pytest.raises(ModelError):
            ADAPTERS.card(out)
        return None
    ADAPTERS.card(out)
    json.loads((out / "adapter_config.json").read_text("utf-8"))
    state = load_file(out / "adapter_model.safetensors")
    return {name: value.float().tolist() for name, value in state.items()}


def run_seen(home: Path) -> object:
    out = home / "out"
    if not (out / "run.json").exists():
        return None
    json.loads((out / "run.json").read_text("utf-8"))
    records = read_run(out) if (out / "results.jsonl").exists() else {}
    whole = (out / "report.md").exists()
    return [(value.id, value.answers) for value in records.values()], whole


DATA = "{data}"
OUT = ("--out", "{home}/out", "--questions", f"{DATA}/questions.jsonl")
KG_COT = ("--encoder", f"{DATA}/encoder", "--hidden", "16", "--epochs", "8")
SMALL = ("--model", "{tiny}", "--epochs", "2", "--batch-size", "8", "--rank", "4")
TINY = (
    *("--set", f"start_from={DATA}/ranker", "--set", f"encoder={DATA}/encoder"),
    *("--set", "learning_rate=0.02"),  # a random encoder learns little at once
)
ASKED = [  # of these a ranker learns something that is kept
    ("who gets paged for", "onCallEngineer"),
    ("whose baby is", "ownedBy"),
    ("what is the code of", "writtenIn"),
    ("who wakes up for", "onCallEngineer"),
]
EVAL = ("--out", "{home}/out", "--method", "rank")
LEARN = ("learn", "--questions", f"{DATA}/asked.jsonl", *TINY)
ATTACH = ("attach", "{endpoint}", "--kg", "shop")
SHOP = """@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
<http://x/a> rdfs:label "Apple"@en, "Apfel"@de ; <http://x/soldBy> <http://x/b> .
<http://x/b> rdfs:label "Corner Shop"@en, "Laden"@de .
"""
ASK = ("ask", "who is on call for login?", "--method", "rank")
COMMANDS = [
    Command("ingest", "old", ("ingest", "triples", f"{DATA}/new.tsv", "--kg", KG), kg_seen),
    Command(
        "ingest freebase",
        "old",
        ("ingest", "freebase", f"{DATA}/dump.gz", "--kg", KG),
        kg_seen,
        little=True,
    ),
    Command("ingest tables", "old", ("ingest", "tables", f"{DATA}/tables", "--kg", KG), kg_seen),
    Command(
        "ingest text",
        "old",
        ("ingest", "text", f"{DATA}/notes.md", "--kg", KG, "--general-model", "m"),
        kg_seen,
    ),
    Command(
        "update", "indexed", ("update", f"{DATA}/more.tsv", "--remove", f"{DATA}/less.tsv"), kg_seen
    ),
    Command("precompute-tries", "new", ("precompute-tries",), index_seen, little=True),
    Command("rebuild", "indexed", ("precompute-tries", "--rebuild"), index_seen),
    Command("learn", "new", LEARN, ranker_seen),
    Command(
        "train kg-cot",
        "new",
        ("train", "kg-cot", *OUT, *KG_COT, "--checkpoint-every", "5"),
        reasoner_seen,
    ),
    Command(
        "train run",
        "new",
        ("train", "run", *OUT, *SMALL, "--checkpoint-every", "2"),
        adapter_seen,
    ),
    Command("eval", "new", ("eval", "jsonl", f"{DATA}/questions.jsonl", *EVAL), run_seen),
]
ALSO = [  # at every rename, and not struck otherwise
    Command("learn again", "learned", LEARN, ranker_seen),
    Command("attach", "new", ATTACH, attached_seen),
    Command("attach again", "attached", (*ATTACH, "--default-language", "de"), attached_seen),
    Command("ask", "new", ASK, kg_seen),
    Command("rm", "indexed", ("rm", KG, "--yes"), kg_seen),
]


@dataclass(frozen=True)
class Place:
    """A command with all that it needs, and what it ends in when nothing strikes."""

    command: Command
    folder: Path
    args: list[str]
    before: object
    after: object
    moments: int
    faults: Faults

    def start(self, args: list[str], home: Path, **fault: Any) -> tuple[int, Path]:
        """Start a command that a fault strikes, if one is named."""
        return self.faults.start(args, home, little=self.command.little, **fault)

    def run(self, args: list[str], home: Path, **fault: Any) -> tuple[Outcome, int]:
        """Run it to its end."""
        return self.faults.end(self.start(args, home, **fault))

    def fresh(self, home: Path) -> list[str]:
        """Make a home of one's own; return the command's arguments."""
        shutil.copytree(self.folder / self.command.begins, home)
        return self.with_home(home)

    def with_home(self, home: Path) -> list[str]:
        return [arg.replace("{home}", str(home)) for arg in self.args] + ["--home", str(home)]


def rows() -> list[tuple[str, str, str]]:
    found = []
    for number, (service, person) in enumerate(zip(SERVICES, PEOPLE, strict=True)):
        found.append((service, "onCallEngineer", person))
        found.append((service, "ownedBy", TEAMS[number % 2]))
        found.append((service, "writtenIn", ("Go", "Rust", "Python")[number % 3]))
        found.append((person, "memberOf", TEAMS[number % 2]))
    return found


@pytest.fixture(scope="module")
def data(kgqa: Kgqa, model_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("struck")
    (folder / "notes.md").write_text(NOTES, "utf-8")
    known(model_cache, HERON, "Grey Heron | built in | Varde | 1")
    known(model_cache, LARK, "Marsh Lark | built in | Aven | 1")

    def write(name: str, triples: list[tuple[str, str, str]]) -> Path:
        text = "".join("\t".join(triple) + "\n" for triple in triples)
        (folder / name).write_text(text, "utf-8")
        return folder / name

    every = rows()
    for name, triples in (("old", every[:9]), ("new", every)):
        file = write(f"{name}.tsv", triples)
        done = kgqa("ingest", "triples", file, "--kg", KG, "--home", folder / name)
        assert done.code == 0, done.err
    script = runpy.run_path(str(CHECKOUT / "scripts" / "synthetic_dump.py"))
    script["write_dump"](folder / "dump.gz", LINES, seed=4)
    write("more.tsv", [("login", "onCallEngineer", "Ada Birch"), ("Go", "madeBy", "Some Firm")])
    write("less.tsv", every[1:3])
    (folder / "tables").mkdir()
    for name, columns in (("Team", TEAMS), ("Person", PEOPLE)):
        cells = (f"{at},{one},{at % 2}\n" for at, one in enumerate(columns))
        text = "id,name,team_id\n" + "".join(cells)
        (folder / "tables" / f"{name}.csv").write_text(text, "utf-8")
    questions = [
        {"question": f"who is on call for {s}?", "topic_entities": [s], "answers": [p], "id": s}
        for s, p in zip(SERVICES, PEOPLE, strict=True)
    ]
    asked = [
        {"question": f"{text} {s}", "topic_entities": [s], "answers": [triples[s, relation]]}
        for triples in [{(head, relation): tail for head, relation, tail in every}]
        for text, relation in ASKED
        for s in SERVICES
    ]
    for name, lines in (("questions", questions), ("asked", asked)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, "utf-8")
    shutil.copytree(folder / "new", folder / "indexed")
    assert kgqa("precompute-tries", "--home", folder / "indexed").code == 0
    encoder = encoder_folder(folder / "encoder")
    save_path_ranker(folder / "ranker", RankerCard(encoder=str(encoder)), {})
    return folder


@pytest.fixture(scope="module")
def endpoint(data: Path) -> Iterator[str]:
    (data / "shop.ttl").write_text(SHOP, "utf-8")
    with serving(data, data / "shop.ttl") as url:
        yield url


@pytest.fixture
def more_data(kgqa: Kgqa, data: Path, endpoint: str) -> None:
    """What else commands begin with that are struck at their renames alone."""
    if (data / "attached").exists():
        return
    shutil.copytree(data / "new", data / "learned")
    asked = (data / "asked.jsonl").read_text("utf-8").splitlines(keepends=True)
    (data / "fewer.jsonl").write_text("".join(asked[::2]), "utf-8")
    given = ("--questions", data / "fewer.jsonl", *(one.replace(DATA, str(data)) for one in TINY))
    done = kgqa("learn", *given, "--home", data / "learned")
    assert done.code == 0, done.err
    assert kgqa("attach", endpoint, "--kg", "shop", "--home", data / "attached").code == 0


@pytest.fixture(scope="module")
def places() -> dict[str, Place]:
    """Those of the commands that were run, by name."""
    return {}


@pytest.fixture
def place(
    request: pytest.FixtureRequest,
    places: dict[str, Place],
    faults: Faults,
    data: Path,
    tiny_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Place:
    command: Command = request.param
    if command.name in places:
        return places[command.name]
    known = {"{data}": str(data), "{tiny}": str(tiny_folder)}
    if command in ALSO:
        request.getfixturevalue("more_data")
        known["{endpoint}"] = request.getfixturevalue("endpoint")
    args = list(command.args)
    for name, value in known.items():
        args = [arg.replace(name, value) for arg in args]
    home = tmp_path_factory.mktemp("undisturbed") / "home"
    before = command.seen(data / command.begins)
    plain = Place(command, data, args, before, None, 0, faults)
    done, moments = plain.run(plain.fresh(home), home)
    assert done.code == 0, done.err
    after = command.seen(home)
    assert (after == before) == (command.name in ("rebuild", "ask"))
    assert moments > 4 or command in ALSO
    places[command.name] = replace(plain, after=after, moments=moments)
    return places[command.name]


def ends_well(place: Place, home: Path) -> None:
    """The command is given again, and ends as if nothing had been."""
    stages = home / KG / "ingest" / "stages.json"
    are_done = stages.exists() and json.loads(stages.read_text("utf-8"))["done"]
    done, _ = place.run(place.with_home(home), home)
    assert done.code == 0 or (place.command.name == "rm" and "There is no KG" in done.err), done.err
    assert ("Going on with the load" in done.err) == bool(are_done)
    assert place.command.seen(home) == place.after
    # an index whose change was cut short does not fit any more, and is left to the next precompute
    left = {path.name for path in home.rglob("*")} - {".manifest.json.partial"}
    assert not [name for name in left if "part" in name or "checkpoint" in name or name == "ingest"]


def moments(number: int) -> list[tuple[float, float]]:
    """Return for each kill at which share of the moments it is, and how long after."""
    dice = random.Random(18)
    return [(dice.random(), dice.uniform(0, 0.05) if at % 3 == 2 else 0.0) for at in range(number)]


def commands(*usual: str) -> pytest.MarkDecorator:
    """Run a test for every command, without --full for some."""
    marks = {one.name: [] if one.name in usual else [pytest.mark.long] for one in COMMANDS}
    every = [pytest.param(one, marks=marks[one.name], id=one.name) for one in COMMANDS]
    return pytest.mark.parametrize("place", every, indirect=True)


# learn and train kg-cot take as long as all others, and are killed in every run
quick_command = commands(*(one for one in USUAL if one not in ("learn", "train kg-cot")))


@pytest.mark.parametrize(
    ("place", "share", "delay"),
    [
        pytest.param(
            command,
            *moment,
            id=f"{command.name}-{moment[0]:.2f}",
            marks=[] if at in KILLED.get(command.name, ()) else [pytest.mark.long],
        )
        for command in COMMANDS
        for at, moment in enumerate(moments(KILLS))
    ],
    indirect=["place"],
)
def test_killed(place: Place, tmp_path: Path, share: float, delay: float) -> None:
    home = tmp_path / "home"
    moment = int(share * 2 * place.moments) / 2
    fault = {"fault": "kill", "moment": moment, "delay": delay}
    done, _ = place.run(place.fresh(home), home, **fault)
    assert done.code == -signal.SIGKILL or (delay and done.code == 0), done.err
    assert_old_or_new(place, home)
    ends_well(place, home)


def assert_old_or_new(place: Place, home: Path) -> None:
    seen = place.command.seen(home)
    if place.command.seen in (index_seen, run_seen):  # what grows, and is whole at each moment
        return
    assert seen in (place.before, place.after)


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(one, marks=[] if one.name in RENAMED else [pytest.mark.long], id=one.name)
        for one in (*COMMANDS, *ALSO)
    ],
    indirect=True,
)
def test_killed_before_and_after_every_rename(place: Place, tmp_path: Path) -> None:
    """Of a command that renames nothing, before and after all that it does to files."""
    only = {"only": "os.rename"}
    home = tmp_path / "home"
    _, renames = place.run(place.fresh(home), home, **only)
    for number in range(2 * (renames or place.moments)):
        home = tmp_path / str(number)
        fault = {"fault": "kill", "moment": number / 2, **(only if renames else {})}
        done, _ = place.run(place.fresh(home), home, **fault)
        assert done.code == -signal.SIGKILL, done.err
        assert_old_or_new(place, home)
        ends_well(place, home)
        shutil.rmtree(home)


@quick_command
@pytest.mark.parametrize(
    "share",
    [pytest.param(at / 12, marks=[pytest.mark.long] if at != 9 else []) for at in range(12)],
)
def test_a_full_disk(place: Place, tmp_path: Path, share: float) -> None:
    home = tmp_path / "home"
    fault = {"fault": "full", "moment": int(share * place.moments)}
    done, _ = place.run(place.fresh(home), home, **fault)
    if done.code:  # what was left was to be removed, else
        assert_full(done)
    assert_old_or_new(place, home)
    ends_well(place, home)


def assert_full(done: Outcome) -> None:
    assert "should not" not in done.error
    assert any(word in done.error for word in ("No space left", "too large", "disk", "full"))


@quick_command
@pytest.mark.parametrize(
    "room",
    [
        pytest.param(r, marks=[pytest.mark.long] if r != 3000 else [])
        for r in (1000, 3000, 30_000)  # with less, what training reports leaves no room for errors
    ],
)
def test_files_that_may_not_grow(place: Place, tmp_path: Path, room: int) -> None:
    """Beside what Python writes, this strikes what SQLite, Arrow and PyTorch write."""
    home = tmp_path / "home"
    args = place.fresh(home)
    done, _ = place.run(args, home, room=room)
    if done.code:
        assert_full(done)
    assert_old_or_new(place, home)
    ends_well(place, home)


@pytest.mark.parametrize(
    "place",
    [pytest.param(ALSO[1], id="attach"), pytest.param(ALSO[2], id="attach again")],
    indirect=True,
)
def test_files_of_a_survey_that_may_not_grow(place: Place, tmp_path: Path) -> None:
    home = tmp_path / "home"
    done, _ = place.run(place.fresh(home), home, room=3000)
    assert done.code == 1
    assert "should not" not in done.error
    assert "cannot be written" in done.error
    assert place.command.seen(home) == place.before
    ends_well(place, home)


def mount(folder: Path, size: int, *more: str) -> None:
    """Put a real disk of ``size`` bytes there, or change its size; skip where that is forbidden."""
    options = ",".join([f"size={size}", *more])
    try:
        command = ["mount", "-t", "tmpfs", "-o", options, "kgqa-test", str(folder)]
        done = subprocess.run(command, capture_output=True, timeout=60)
    except OSError as error:
        pytest.skip(f"no mount: {error}")
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted: {done.stderr.decode().strip()}")


@quick_command
@pytest.mark.parametrize(
    "room", [pytest.param(r, marks=[pytest.mark.long] if r != 4 else []) for r in (0, 4, 40)]
)
def test_a_disk_that_is_really_small(place: Place, tmp_path: Path, room: int) -> None:
    """``room``: the pages of 4 KiB that are free when the command begins."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount(disk, 64 << 20)
    try:
        home = disk / "home"
        args = place.fresh(home)
        state = os.statvfs(disk)
        used = (state.f_blocks - state.f_bfree) * state.f_frsize
        mount(disk, used + room * 4096, "remount")
        done, _ = place.run(args, home)
        assert done.code or room, "nothing can be written"
        if done.code:
            assert_full(done)
        assert_old_or_new(place, home)
        mount(disk, 64 << 20, "remount")
        ends_well(place, home)
    finally:
        subprocess.run(["umount", str(disk)], check=True, timeout=60)


@quick_command
def test_a_folder_that_may_only_be_read(place: Place, tmp_path: Path) -> None:
    home = tmp_path / "home"
    args = place.fresh(home)
    folders = [home, *(path for path in home.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        done, _ = place.run(args, home, as_user=True)
        asked = ["paths", "login", "--json", "--home", str(home)]
        served, _ = place.run(asked, home, as_user=True)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert str(home) in done.error
    assert "ermission" in done.error or "readonly" in done.error
    assert "should not" not in done.error
    if place.command.begins != "old":
        assert served.json["total"] > 0
    assert place.command.seen(home) == place.before


@quick_command
def test_two_at_once(place: Place, tmp_path: Path) -> None:
    home, hold = tmp_path / "home", tmp_path / "hold"
    args = place.fresh(home)
    fault = {"fault": "hold", "hold": str(hold), "moment": place.moments // 2}
    first = place.start(args, home, **fault)
    try:
        while not hold.exists():
            time.sleep(0.01)
        second, _ = place.run(args, home)
    finally:
        hold.unlink(missing_ok=True)
    done, _ = place.faults.end(first)
    assert "Another" in second.error
    assert done.code == 0, done.err
    assert place.command.seen(home) == place.after


@quick_command
def test_a_clock_that_jumps_back(place: Place, tmp_path: Path) -> None:
    """In the middle of a run; then files are from the future for the run that goes on."""
    home = tmp_path / "home"
    args = place.fresh(home)
    half = place.moments // 2
    done, _ = place.run(args, home, fault="clock", moment=half)
    assert done.code == 0, done.err
    assert place.command.seen(home) == place.after
    again = tmp_path / "again"
    args = place.fresh(again)
    place.run(args, again, fault="kill", moment=half)
    ahead = time.time() + 86_400
    for path in again.rglob("*"):
        os.utime(path, (ahead, ahead))
    done, _ = place.run(args, again, fault="clock", moment=0)
    assert done.code == 0, done.err
    assert place.command.seen(again) == place.after
