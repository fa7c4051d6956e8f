"""A reasoner learns a toy KG: questions of one and two hops, and is kept."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.answers.answer import TopicEntity
from kgqa.errors import DataError
from kgqa.methods.base import LinkedQuestion
from kgqa.methods.kg_cot.hops import HopTable
from kgqa.models.graph_reasoner import load_reasoner
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent, Task
from kgqa.training.data import TrainingQuestion
from kgqa.training.options import ReasonerSettings
from kgqa.training.reasoners import fit_reasoner, is_check, walk_questions
from tests.methods.given import answered, kg_cot
from tests.methods.reasoners import encoder_folder, tiny_encoder
from tests.training.conftest import PEOPLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore
    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.training.reports import ReasonerReport

RULES = WalkRules(2)
encoder_at: list[str] = []  # where the encoder of the module lies
# the town: born_in, child, and office -> place through a mediator
KINDS = {
    "where was {} born": ("c", 0),
    "who is the child of {}": ("p", 1),
    "in which town is the office of {}": ("c", 3),
    "where was the child of {} born": ("c", 1),
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    folder = encoder_folder(tmp_path_factory.mktemp("encoder") / "tiny")
    encoder_at[:] = [str(folder)]
    return tiny_encoder(folder)


def questions() -> list[tuple[TrainingQuestion, int]]:
    made = []
    for kind, (text, (letter, shift)) in enumerate(KINDS.items()):
        for at in range(PEOPLE - 1):
            answer = f"{letter}{(at + shift) % PEOPLE}"
            asked = text.format(f"person {at}")
            one = TrainingQuestion(f"{kind}-{at}", asked, (f"p{at}",), (answer,))
            made.append((one, 2 if kind == 3 else 1))
    return made


def trained(
    town: SqliteStore,
    encoder: SentenceEncoder,
    out: Path,
    apart: set[str],
    *,
    progress: Silent | None = None,
    **more: object,
) -> tuple[ReasonerReport, Silent]:
    table = HopTable(town, RULES)
    progress = progress or Silent()
    asked = [pair for pair in questions() if pair[0].id not in apart]
    found, report = walk_questions(table, asked, len(asked), progress)
    assert (report.used, report.unreachable, report.unknown) == (len(asked), [], [])
    usual = {"epochs": 40, "hidden": 32, "dropout": 0.0, "learning_rate": 5e-3, "checks": 3}
    settings = ReasonerSettings(**{**usual, **more})
    return fit_reasoner(
        table,
        [one for one in found if not is_check(one.id)],
        [one for one in found if is_check(one.id)],
        encoder,
        out,
        settings,
        described={"data": "a town"},
        progress=progress,
        encoder_name=encoder_at[0],
    ), progress


APART = {f"{kind}-{at}" for kind in range(4) for at in (4, 11)}


def test_it_learns_questions_of_two_hops_and_is_kept(
    town: SqliteStore, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    result, progress = trained(town, encoder, tmp_path / "w", APART)
    assert result.hits_at_1 >= 90.0, progress.notes
    where = {"device": "cpu", "cache": tmp_path, "progress": Silent(), "encoder": encoder_at[0]}
    reasoner = load_reasoner(str(tmp_path / "w"), **where)
    assert reasoner.card.described["data"] == "a town"
    asked = [pair[0] for pair in questions() if pair[0].id in APART]
    right = 0
    for one in asked:
        key = int(town.keys_of(one.topics)[0])
        topic = TopicEntity(key, one.topics[0], one.topics[0], 1.0)
        answer = answered(town, kg_cot(reasoner), LinkedQuestion(one.question, (topic,)))
        right += answer.answers[0].id == one.answers[0]
    assert right == len(asked) == 8
    # loading a second time gives the same, to the last digit
    again = load_reasoner(str(tmp_path / "w"), **where)
    for name, weight in reasoner.model.tensors.items():
        assert np.array_equal(weight, again.model.tensors[name])


def test_answers_alone_teach_too(
    town: SqliteStore, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    # what so few questions of a random encoder teach others by answers alone is chance
    result, progress = trained(town, encoder, tmp_path / "w", APART, path_weight=0.0)
    (first, *_) = [note for note in progress.notes if note.startswith("step ")]
    assert result.loss < 0.8 * float(first.split("loss ")[1].split(",")[0])


def test_the_same_seed_gives_the_same_reasoner(
    town: SqliteStore, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    first, _ = trained(town, encoder, tmp_path / "a", APART, seed=5)
    second, _ = trained(town, encoder, tmp_path / "b", APART, seed=5)
    assert (first.loss, first.hits_at_1, first.steps) == (
        second.loss,
        second.hits_at_1,
        second.steps,
    )


class StoppedAt(Silent):
    """Stops a run, as Ctrl-C does, when it counts its nth training step."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    @contextmanager
    def task(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Task]:
        with super().task(what, total, unit) as task:
            yield _Stopping(self.step) if what == "training" else task


class _Stopping(Task):
    def __init__(self, step: int) -> None:
        self.left = step

    def advance(self, amount: int = 1) -> None:
        self.left -= amount
        if self.left == 0:
            raise KeyboardInterrupt


def checkpoints(out: Path) -> list[str]:
    return sorted(path.name for path in out.glob("checkpoint*"))


def test_a_stopped_run_goes_on_to_the_same_weights(
    town: SqliteStore, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    short = {"epochs": 12, "dropout": 0.3, "checkpoint_every": 4}
    whole, _ = trained(town, encoder, tmp_path / "whole", APART, **short)
    out = tmp_path / "stopped"
    # stopped before the first checkpoint, after it, and after the first check
    for stop, step in ((3, None), (11, 8), (31, 28)):
        with pytest.raises(KeyboardInterrupt):
            trained(town, encoder, out, APART, progress=StoppedAt(stop), **short)
        assert checkpoints(out) == ([] if step is None else ["checkpoint.pt"])
    (out / "checkpoint.part").write_bytes(b"PK")  # as killed while it was written
    result, progress = trained(town, encoder, out, APART, **short)
    assert result.resumed_from == 28
    assert whole.resumed_from is None
    assert any("Going on from step 28" in note for note in progress.notes)
    own = {"folder", "seconds", "resumed_from"}
    assert whole.model_dump(exclude=own) == result.model_dump(exclude=own)
    for name in ("reasoner.safetensors", "reasoner.json"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not checkpoints(out)


def test_questions_say_which_relation_paths_they_mean(town: SqliteStore) -> None:
    table = HopTable(town, RULES)
    found, _ = walk_questions(table, questions(), 4, Silent())
    names = town.relations().ids
    meant = {}
    for one in found:
        said = tuple(
            tuple(names[step // 2] for step in hop if step >= 0)
            for path in one.paths
            for hop in path
        )
        meant.setdefault(one.id.split("-")[0], set()).add(said)
    assert meant["0"] == {(("person.born_in",),)}
    assert meant["1"] == {(("person.child",),)}
    assert meant["2"] == {(("person.office", "office.place"),)}
    assert meant["3"] == {(("person.child",), ("person.born_in",))}


def test_what_cannot_be_reached_is_reported(town: SqliteStore, encoder: SentenceEncoder) -> None:
    table = HopTable(town, RULES)
    asked = [
        (TrainingQuestion("a", "Who?", ("p1",), ("c15",)), 0),
        (TrainingQuestion("b", "Who?", ("no such",), ("c1",)), 0),
        (TrainingQuestion("c", "Who?", ("p1",), ("c1",)), 0),
    ]
    found, report = walk_questions(table, asked, 3, Silent())
    assert [one.id for one in found] == ["c"]
    assert (report.unreachable, report.unknown) == (["a"], ["b"])
    assert (report.used, report.questions) == (1, 3)
    with pytest.raises(DataError, match="None of the questions"):
        fit_reasoner(
            table,
            [],
            [],
            encoder,
            None,  # type: ignore[arg-type]
            ReasonerSettings(),
            described={},
            progress=Silent(),
        )


def test_questions_that_checkpoints_are_chosen_by_are_a_tenth() -> None:
    share = np.mean([is_check(f"q{at}") for at in range(5_000)])
    assert 0.08 < share < 0.12
