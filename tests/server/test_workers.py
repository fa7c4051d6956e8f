"""Worker processes: the same answers as one session gives, whatever happens to a worker."""

from __future__ import annotations

import os
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import kgqa
from kgqa.api import Asked, Home
from kgqa.errors import KGNotFoundError
from kgqa.models import path_ranker
from kgqa.models.path_ranker import load_path_ranker
from kgqa.server.kgs import ServedKgs
from kgqa.server.options import ServeOptions
from kgqa.server.progress import ServerProgress
from kgqa.server.sessions import AnswerCache
from kgqa.server.worker import Job, Worker
from tests.server.conftest import TRIPLES, Served, ready, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

QUESTIONS = [
    f"{asked} {head}"
    for head in ("checkout-api", "price-feed", "Payments", "Catalogue")
    for asked in ("who is the on call engineer of", "what owns", "who leads", "what depends on")
]


def below(process: int) -> list[int]:
    """The processes that a process started, and those that these started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def scores(answer: dict[str, Any], part: str, name: str) -> dict[str, float]:
    return {one[name]: one["score"] for one in answer[part]}


@pytest.fixture(scope="module")
def two(home: Path, model_cache: Path) -> Iterator[Served]:
    with serving(home, model_cache, "--workers", "2", "--cache-mb", "0") as server:
        ready(server)
        yield server


def test_a_replaced_kg_takes_over_the_models_that_are_loaded(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []

    def counted(name: str, *args: Any, **options: Any) -> Any:
        loads.append(name)
        return load_path_ranker(name, *args, **options)

    monkeypatch.setattr(path_ranker, "load_path_ranker", counted)
    served = partial(Home, home)
    worker = Worker(
        lambda kg, **shared: served(kg=kg, **shared), ServeOptions(), ServerProgress(), bool
    )
    with closing(worker):
        worker.load("services")  # what worker processes share
        assert worker.warm_up("services") is None
        monkeypatch.setattr(ServedKgs, "is_replaced", lambda *_: True)
        assert worker.warm_up("services") is None
    assert len(loads) == 1


class PanicException(BaseException):  # as libraries in Rust call it
    """What no handler of Exception sees."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KGNotFoundError("There is no KG services."), "There is no KG services."),
        (PanicException("PyObject pointer is null"), "There was not enough memory for this."),
        (PanicException("oh"), "Something went wrong that should not (PanicException)."),
    ],
)
def test_a_question_whose_kg_goes_before_its_answer_is_told_is_not_lost(
    error: BaseException, said: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any) -> None:
        raise error

    monkeypatch.setattr(kgqa.KG, "browser_url", gone)
    served = partial(Home, home)
    worker = Worker(
        lambda kg=None, **shared: served(kg=kg, **shared),
        ServeOptions(),
        ServerProgress(),
        lambda _: False,
    )
    told: list[tuple[int, str, str]] = []
    asked = Asked(QUESTIONS[0], (), ())
    end = time.monotonic() + 120
    job = Job(7, "services", "auto", {}, asked, end, watched=False, key=("services", "auto"))
    with closing(worker):
        worker.serve(job, lambda: None, lambda *one: told.append((*one[:2], str(one[2]))))
    assert [one[:2] for one in told] == [(7, "error")]
    assert told[0][2].startswith(said)


@pytest.mark.parametrize(
    ("versions", "replaced"),
    [
        (["1", "1", "1", "1"], True),
        (["1", "1", "1", "2"], False),  # updated while the list was read
        (["1", "2"], False),
    ],
)
def test_a_kg_that_is_updated_while_it_is_looked_at_is_not_replaced(
    versions: list[str], replaced: bool, tmp_path: Path
) -> None:
    given = iter(versions)

    class Opened:
        name, is_live = "kg", False

        @property
        def info(self) -> Any:
            return SimpleNamespace(version=next(given))

    listed = ServedKgs(lambda *_, **__: Home(tmp_path))
    listed.all = lambda **_: {"kg": SimpleNamespace(version="2")}  # type: ignore[method-assign,assignment]
    assert listed.is_replaced(cast("kgqa.KG", Opened())) is replaced


def test_answers_are_the_librarys_in_any_order_and_batch(two: Served, home: Path) -> None:
    asked = QUESTIONS * 3
    with kgqa.open("services", home=home) as kg:
        right = {one: kg.ask(one).to_dict() for one in QUESTIONS}
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda one: two.post("/api/ask", {"question": one}), asked))
    for question, reply in zip(asked, replies, strict=True):
        assert reply.json["question"] == question
        mine, others = reply.json, right[question]
        assert [answer["name"] for answer in mine["answers"]] == [
            answer["name"] for answer in others["answers"]
        ]
        assert mine["notes"] == others["notes"]
        for part in (("answers", "name"), ("paths", "text")):  # the last bits are the batch's
            near = pytest.approx(scores(others, *part), rel=1e-3)
            assert scores(mine, *part) == near, question


def test_a_worker_that_is_killed_loses_no_question(two: Served) -> None:
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(two.post, "/api/ask", {"question": one}) for one in QUESTIONS * 2]
        os.kill(max(below(two.process.pid)), signal.SIGKILL)
        assert [one.result().status for one in waiting] == [200] * len(waiting)
    ready(two)


def test_a_worker_whose_memory_runs_out_says_so_and_is_replaced(
    home: Path, model_cache: Path
) -> None:
    with serving(home, model_cache, "--workers", "2", "--cache-mb", "0") as server:
        ready(server)
        for worker in sorted(below(server.process.pid))[-2:]:  # which have answered nothing yet
            status = Path(f"/proc/{worker}/status").read_text()
            held = int(status.partition("VmSize:")[2].split()[0]) << 10
            resource.prlimit(worker, resource.RLIMIT_AS, (held, held))
        with ThreadPoolExecutor(4) as pool:
            ask = partial(server.post, "/api/ask")
            replies = list(pool.map(ask, [{"question": one} for one in QUESTIONS]))
        refused = [one.json["error"]["message"] for one in replies if one.status != 200]
        assert {one.status for one in replies} <= {200, 503}
        assert {*refused} == {"There was not enough memory for this."}
        ready(server)
        assert server.post("/api/ask", {"question": QUESTIONS[0]}).status == 200


@pytest.mark.long
def test_a_worker_that_hangs_is_replaced(home: Path, model_cache: Path) -> None:
    with serving(home, model_cache, "--workers", "2", "--time-limit", "10") as server:
        ready(server)
        for one in sorted(below(server.process.pid))[-2:]:
            os.kill(one, signal.SIGSTOP)
        assert server.post("/api/ask", {"question": QUESTIONS[0]}).status == 504
        end = time.monotonic() + 200
        while server.post("/api/ask", {"question": QUESTIONS[0]}).status != 200:
            assert time.monotonic() < end


def command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def test_an_answer_is_kept_for_the_state_of_the_kg_that_gave_it(
    tmp_path: Path, model_cache: Path
) -> None:
    def load(*triples: tuple[str, str, str]) -> None:
        (tmp_path / "kg.tsv").write_text("".join("\t".join(triple) + "\n" for triple in triples))
        made = kgqa.ingest("triples", tmp_path / "kg.tsv", kg="kg", home=tmp_path / "home")
        made.close()

    load(*TRIPLES)
    with serving(tmp_path / "home", model_cache, "--workers", "2") as server:
        ready(server)
        first = server.post("/api/ask", {"question": QUESTIONS[0]}).json
        assert server.post("/api/ask", {"question": QUESTIONS[0]}).json == first  # and its timings
        other = server.post("/api/ask", {"question": QUESTIONS[0], "k": 1}).json
        assert other["timings"] != first["timings"]
        load(("checkout-api", "onCallEngineer", "Eve Novak"), *TRIPLES[1:])
        end = time.monotonic() + 60
        while (found := server.post("/api/ask", {"question": QUESTIONS[0]}).json) == first:
            assert time.monotonic() < end
            time.sleep(0.2)
        assert [answer["name"] for answer in found["answers"]] == ["Eve Novak"]


def test_the_cache_is_bounded_and_gives_copies() -> None:
    cache = AnswerCache(400)
    for number in range(50):
        cache.put((number,), {"n": number, "of": ["x" * 40]})
    cache.put(("large",), {"of": "x" * 200})
    assert cache._size == sum(map(len, cache._kept.values())) <= 400
    assert cache.get((0,)) is None
    assert cache.get(("large",)) is None
    found = cache.get((49,))
    assert found is not None
    found["of"].clear()
    assert cache.get((49,)) == {"n": 49, "of": ["x" * 40]}


def test_workers_that_end_while_nobody_asks_are_replaced(two: Served) -> None:
    """Both at once: the next question is answered, and none is lost with them."""
    ready(two)
    for _ in range(2):
        for worker in sorted(below(two.process.pid))[-2:]:
            os.kill(worker, signal.SIGKILL)
        reply = two.post("/api/ask", {"question": QUESTIONS[0]})
        assert reply.status == 200, reply.text
