"""The sessions: who waits, who is answered together, who goes; with a method that a test holds."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from kgqa.answers.answer import Findings
from kgqa.api import Home
from kgqa.errors import KgqaError, TimeLimitError, UsageError
from kgqa.methods.base import Method
from kgqa.methods.options import MethodOptions
from kgqa.registry import METHODS, Entry
from kgqa.server.faults import BusyError, RefusedError, StoppingError
from kgqa.server.guard import Client, asking
from kgqa.server.options import ServeOptions
from kgqa.server.sessions import Sessions
from kgqa.server.worker import Worker
from tests.server.conftest import QUESTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Found, LinkedQuestion


class Held(Method[MethodOptions]):
    """Answers nothing until it may; takes all questions that wait."""

    name = "held"
    may: ClassVar[threading.Event] = threading.Event()
    begun: ClassVar[threading.Event] = threading.Event()
    taken: ClassVar[list[list[str]]] = []

    def findings(self, store: GraphStore, questions: Iterable[LinkedQuestion | KgqaError]) -> Found:
        first = next(iter(questions))
        self.begun.set()
        assert self.may.wait(60)
        every = [first, *questions]
        self.taken.append([one.question for one in every if not isinstance(one, KgqaError)])
        for number, one in enumerate(every):
            yield number, one if isinstance(one, KgqaError) else Findings(notes=(one.question,))


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("held", "tests.server.test_sessions:Held")
    monkeypatch.setitem(METHODS._added, "held", entry)
    Held.may.clear()
    Held.begun.clear()
    Held.taken.clear()


@pytest.fixture
def sessions(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes sessions that load nothing at the start."""
    made: list[Sessions] = []
    monkeypatch.setattr(Worker, "warm_up", lambda self, name: None)

    def make(**options: Any) -> Sessions:
        def of(kg: str | None, **shared: Any) -> Home:
            return Home(home, kg=kg, **shared)

        made.append(Sessions(of, ServeOptions(**options)))
        made[-1].start()
        return made[-1]

    yield make
    Held.may.set()
    for one in made:
        one.stop()


async def ask(sessions: Sessions, name: str = "", **options: Any) -> Any:
    return await sessions.ask(f"{QUESTION} {name}", method="held", **options)


async def begun() -> None:
    await asyncio.to_thread(Held.begun.wait, 60)


def test_what_waits_is_answered_together_and_nothing_is_mixed_up(sessions: Any) -> None:
    async def run() -> None:
        made = sessions()
        first = await ask(made, "first")
        await begun()
        later = [await ask(made, f"number{n}") for n in range(5)]
        Held.may.set()
        found = await asyncio.gather(*(made.answer(one) for one in (first, *later)))
        assert [one["notes"] for one in found] == [[one["question"]] for one in found]
        assert [one["question"].split()[-1] for one in found[1:]] == [
            f"number{n}" for n in range(5)
        ]

    asyncio.run(run())
    assert sum(len(batch) for batch in Held.taken) == 6
    assert len(Held.taken) == 1  # one batch: those that came meanwhile joined it


def test_a_full_queue_is_told_and_who_goes_away_makes_room(sessions: Any) -> None:
    async def run() -> None:
        made = sessions(max_queue=2)
        first = await ask(made)
        await begun()
        waiting = [await ask(made), await ask(made)]
        with pytest.raises(BusyError) as busy:
            await ask(made)
        assert busy.value.seconds >= 1
        gone = asyncio.ensure_future(made.answer(waiting[0]))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert made.counts["waiting"] == 1
        third = await ask(made)
        Held.may.set()
        await asyncio.gather(*(made.answer(one) for one in (first, waiting[1], third)))

    asyncio.run(run())
    assert sum(len(batch) for batch in Held.taken) == 3


def as_client(name: str) -> None:
    asking.set(Client(key="-" * 16, name=name))


def test_a_queue_that_one_client_filled_has_room_for_another(sessions: Any) -> None:
    """And what the other asks does not wait for all that the first asked before."""

    async def run() -> None:
        made = sessions(max_queue=4)
        as_client("many")
        waiting = [await ask(made, "many")]
        await begun()
        waiting += [await ask(made, "many", options={"k": 3}) for _ in range(4)]
        with pytest.raises(BusyError):
            await ask(made, "many")
        as_client("few")
        waiting += [await ask(made, "few", options={"k": 2}) for _ in range(2)]
        with pytest.raises(BusyError):  # it has its share
            await ask(made, "few", options={"k": 2})
        Held.may.set()
        await asyncio.gather(*map(made.answer, waiting))

    asyncio.run(run())
    assert [batch[0].split()[-1] for batch in Held.taken[:2]] == ["many", "few"]
    assert sum(map(len, Held.taken)) == 7


def test_a_question_ends_in_time_and_at_the_end(sessions: Any) -> None:
    async def run() -> None:
        made = sessions(time_limit=0.5)
        slow = await ask(made)
        with pytest.raises(TimeLimitError):
            await made.answer(slow)
        left = await ask(made, "left")
        made.refuse()
        with pytest.raises(StoppingError):
            await made.answer(left)
        with pytest.raises(StoppingError):
            await ask(made)

    asyncio.run(run())


def test_a_fault_of_a_method_is_told_without_its_insides(sessions: Any) -> None:
    async def run() -> None:
        made = sessions()
        Held.may.set()
        Held.taken = None  # type: ignore[assignment, misc]
        try:
            with pytest.raises(KgqaError) as fault:
                await made.answer(await ask(made))
        finally:
            Held.taken = []
        assert "AttributeError" in fault.value.message
        assert "NoneType" not in str(fault.value)
        found = await made.answer(await ask(made))  # the thread lives on
        assert found["method"] == "held"

    asyncio.run(run())


def test_only_allowed_models_may_be_named(sessions: Any) -> None:
    async def run() -> None:
        made = sessions(allow=("universal",))
        with pytest.raises(UsageError, match="that the server does not allow"):
            await made.ask(QUESTION, method="rank", options={"ranker": "/tmp"})
        Held.may.set()
        waiting = await made.ask(QUESTION, method="rank", options={"ranker": "universal"})
        waiting.gone = True

    asyncio.run(run())


@pytest.mark.model
def test_the_least_recently_used_kg_llm_goes(sessions: Any, tiny_folder: Path) -> None:
    other = tiny_folder.parent / "Other-Llama"
    if not other.exists():
        other.symlink_to(tiny_folder)
    names = (str(tiny_folder), str(other))

    async def run() -> None:
        made = sessions(allow=names, time_limit=300.0)

        async def by(model: str, **options: Any) -> None:
            given = {"model": model, "adapter": "none", "k": 2, **options}
            waiting = await made.ask(QUESTION, method="gcr", options=given)
            assert (await made.answer(waiting))["kg_llm"]["model"]

        def held() -> list[object]:
            return [sorted(map(str, value.kg_llms)) for value in made._answering[0]._open.values()]

        await by(names[0])
        await by(names[0], hops=1)  # another session, the same model
        assert len(made._answering[0]._open) == 2
        assert len({str(one) for one in held()}) == 1
        first = [value._resources._kept for value in made._answering[0]._open.values()]
        assert (
            len({id(next(v for k, v in kept.items() if k[0] == "kg_llm")) for kept in first}) == 1
        )
        await by(names[1])
        assert len(held()) == 1  # both sessions of the first model are closed
        assert "Other-Llama" in str(held())

    asyncio.run(run())


@pytest.mark.parametrize("fresh", [0.0, 600.0])
def test_a_kg_that_is_loaded_again_is_seen_and_not_opened_twice(
    tmp_path: Path, monkeypatch: Any, fresh: float
) -> None:
    import kgqa
    from kgqa.progress import Silent

    monkeypatch.setattr(Worker, "warm_up", lambda self, name: None)
    monkeypatch.setattr("kgqa.server.kgs._FRESH", fresh)

    def load(*lines: str) -> None:
        (tmp_path / "kg.tsv").write_text("".join(f"{line}\n" for line in lines))
        kgqa.ingest(
            "triples", tmp_path / "kg.tsv", kg="kg", home=tmp_path / "home", progress=Silent()
        ).close()

    load("a\tr\tb")
    made = Sessions(lambda kg, **shared: Home(tmp_path / "home", kg=kg, **shared), ServeOptions())
    made.start()

    async def total() -> int:
        return await made.read(None, lambda kg: kg.paths("a", hops=1).total)

    async def run() -> None:
        assert await total() == 1
        opened = made._readers["kg", False]
        await asyncio.to_thread(load, "a\tr\tb", "a\tr\tc")
        assert await total() == 2
        assert await total() == 2
        assert made._readers["kg", False] is opened

    try:
        asyncio.run(run())
    finally:
        made.stop()


def test_work_ends_when_its_client_goes_or_its_time_is_over(sessions: Any) -> None:
    async def run() -> None:
        made = sessions(time_limit=1.5, max_queue=1)
        first = await ask(made)
        await begun()
        first.check()  # somebody waits
        abandoned = await ask(made, "abandoned")  # nobody ever listens: its place is freed in time
        with pytest.raises(BusyError):
            await ask(made)
        await asyncio.sleep(abandoned.deadline - time.monotonic() + 0.05)
        with pytest.raises(TimeLimitError):
            first.check()
        later = await ask(made, "later")
        assert made._waiting == [later]
        abandoned.gone = True
        with pytest.raises(RefusedError, match="went away"):
            abandoned.check()

    asyncio.run(run())
