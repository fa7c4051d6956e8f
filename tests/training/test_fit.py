"""Training writes what it says, goes on where it was stopped, and refuses another's checkpoints."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file

from kgqa.errors import DataError, UsageError
from kgqa.models.adapter import preset
from kgqa.models.kg_llm import NO_ADAPTER, load_encoder, load_kg_llm
from kgqa.paths.format import PathFormat
from kgqa.progress import Silent
from kgqa.registry import validated
from kgqa.training.fit import encode, train, with_markers
from kgqa.training.options import TrainingSettings
from tests.training.runs import EXAMPLES, SETTINGS, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kgqa.models.kg_llm import KgLLM
    from kgqa.progress import Task

pytestmark = pytest.mark.model
FORM = PathFormat()
ROOT = Path(__file__).parents[2]


def weights(folder: Path, name: str = "adapter_model.safetensors") -> dict[str, torch.Tensor]:
    return dict(load_file(folder / name))


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


def loss_of(llm: KgLLM, form: PathFormat = FORM) -> float:
    (row,), _ = encode(llm, EXAMPLES[:1], form, 512)
    ids, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])
    with torch.inference_mode():
        return float(llm.model(input_ids=ids, labels=labels).loss)


class Counted(Silent):
    """Keeps how many steps were shown."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []
        self.total: int | None = None
        self.open = False

    @contextmanager
    def task(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Task]:
        if what != "training":
            with super().task(what, total, unit) as task:
                yield task
            return
        self.total, self.open = total, True
        yield self
        self.open = False

    def advance(self, amount: int = 1) -> None:
        self.steps.append(amount)

    def tell(self, text: str) -> None:
        assert text.startswith("loss ")


@pytest.fixture(scope="module")
def undisturbed(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing stopped."""
    out = tmp_path_factory.mktemp("undisturbed")
    result = run(tiny_folder, out, Silent())
    assert (result.examples, result.steps, result.resumed_from) == (6, 48, None)
    return out


def test_a_killed_run_goes_on_and_ends_with_the_same_weights(
    tiny_folder: Path, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "tests.training.runs", str(tiny_folder), str(out), "40"]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert not (out / "adapter_model.safetensors").exists()
    (out / "checkpoint.part").write_bytes(b"PK")  # as one that was cut short while written
    progress = Counted()
    result = run(tiny_folder, out, progress)
    assert result.resumed_from == 30
    assert progress.steps == [30, *[1] * 18], "it is shown how far the steps are"
    assert (progress.total, progress.open) == (48, False)
    assert any("Going on from step 30" in note for note in progress.notes)
    assert result.steps == 48
    assert same(weights(out), weights(undisturbed))
    assert not list(out.glob("checkpoint*"))
    steps = [json.loads(line) for line in (out / "training.jsonl").read_text().splitlines()]
    assert [step["step"] for step in steps if "loss" in step] == [20, 40]


def test_another_seed_gives_other_weights(
    tiny_folder: Path, undisturbed: Path, tmp_path: Path
) -> None:
    run(tiny_folder, tmp_path / "other", Silent(), seed=4)
    assert not same(weights(tmp_path / "other"), weights(undisturbed))


def test_checkpoints_of_another_run_are_refused_by_name(tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "stopped"

    class Stops(Silent):
        def note(self, text: str) -> None:
            if text.startswith("step 20/"):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tiny_folder, out, Stops())
    with pytest.raises(DataError, match=r"another learning_rate \(0.02, not 0.01\)") as caught:
        run(tiny_folder, out, Silent(), learning_rate=1e-2)
    assert "set `resume` to false" in str(caught.value)
    with pytest.raises(DataError, match="another set of examples"):
        run(tiny_folder, out, Silent(), max_tokens=30)
    # what leaves the weights as they are may change
    assert run(tiny_folder, out, Silent(), check_every=30).resumed_from == 10


def test_one_run_at_a_time_writes_a_folder(tiny_folder: Path, tmp_path: Path) -> None:
    with FileLock(tmp_path / ".lock"), pytest.raises(UsageError, match="Another run"):
        run(tiny_folder, tmp_path, Silent())


def test_an_adapter_folder_says_what_it_is(
    load_tiny: Callable[[], KgLLM], tiny_folder: Path, undisturbed: Path, tmp_path: Path
) -> None:
    config = json.loads((undisturbed / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "Tiny-Llama"
    readme = (undisturbed / "README.md").read_text()
    assert "examples of: a zoo" in readme
    assert '"learning_rate": 0.02' in readme
    assert re.search(r"held-out loss: \d+\.\d{4}", readme)
    assert all(value.dtype == torch.bfloat16 for value in weights(undisturbed).values())
    tuned = load_kg_llm(
        str(tiny_folder), str(undisturbed), device="cpu", cache=tmp_path, progress=Silent()
    )
    assert loss_of(tuned) < loss_of(load_tiny()) - 0.5


def test_a_run_may_start_from_an_adapter(
    load_tiny: Callable[[], KgLLM], tiny_folder: Path, undisturbed: Path, tmp_path: Path
) -> None:
    train(
        load_tiny(),
        EXAMPLES,
        [],
        FORM,
        tmp_path / "further",
        SETTINGS,
        data={},
        start_from=undisturbed,
        progress=Silent(),
    )
    first, further = (
        load_kg_llm(str(tiny_folder), str(one), device="cpu", cache=tmp_path, progress=Silent())
        for one in (undisturbed, tmp_path / "further")
    )
    assert loss_of(further) < loss_of(first)


def test_accumulated_batches_are_one_big_batch(tiny_folder: Path, tmp_path: Path) -> None:
    """The loss of a step is the mean over its tokens, however they fall into batches."""
    settings = {"dropout": 0.0, "epochs": 1.0, "seed": 1}
    big = run(tiny_folder, tmp_path / "big", Silent(), batch_size=6, **settings)
    parts = run(tiny_folder, tmp_path / "parts", Silent(), batch_size=1, accumulation=6, **settings)
    assert (big.steps, parts.steps) == (1, 1)
    assert parts.loss == pytest.approx(big.loss, rel=1e-3)
    one, other = weights(big.folder), weights(parts.folder)
    near = torch.cat([(one[name] - other[name]).float().abs().flatten() < 3e-3 for name in one])
    # a first step moves a weight by the rate, whatever its gradient: one that is near 0 either way
    assert near.float().mean() > 0.95


def test_nothing_to_train_on_is_an_error(load_tiny: Callable[[], KgLLM], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="short enough"):
        train(
            load_tiny(),
            EXAMPLES,
            [],
            FORM,
            tmp_path,
            TrainingSettings(max_tokens=3),
            data={},
            progress=Silent(),
        )


def test_settings_that_cannot_be_meant_are_refused() -> None:
    for wrong in ({"epochs": 0.0}, {"rank": 0}, {"warmup": 2.0}, {"check_every": -1}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            validated(TrainingSettings, wrong, "a run")


def test_the_published_recipe_gives_a_model_that_loads_by_its_folder(
    load_tiny: Callable[[], KgLLM], tmp_path: Path
) -> None:
    """Markers the tokenizer lacks, the published target, all weights; the folder is a model."""
    card = preset("gcr")
    form = PathFormat(start=card.start, end=card.end)
    out = tmp_path / "Tiny-GCR"
    settings = TrainingSettings(
        epochs=12, learning_rate=1e-2, batch_size=3, accumulation=2, max_tokens=512, full=True
    )
    before = loss_of(with_markers(load_tiny(), card), form)
    llm = load_tiny().with_card(card)
    result = train(llm, EXAMPLES, [], form, out, settings, data={}, progress=Silent())
    assert result.steps == 12
    assert not (out / "adapter_config.json").exists()
    tuned = load_kg_llm(str(out), None, device="cpu", cache=tmp_path, progress=Silent())
    assert tuned.card.added_tokens == ("<PATH>", "</PATH>")
    assert (tuned.card.prompt, tuned.card.answer) == (card.prompt, card.answer)
    assert tuned.encoder.marker_id("<PATH>") is not None
    assert loss_of(tuned, form) < before - 1.0
    # what tries are made with is the same
    light = load_encoder(str(out), None, cache=tmp_path, progress=Silent())
    assert (light.card, light.encoder.fingerprint) == (tuned.card, tuned.encoder.fingerprint)
    again = load_kg_llm(str(out), NO_ADAPTER, device="cpu", cache=tmp_path, progress=Silent())
    assert loss_of(again, form) == pytest.approx(loss_of(tuned, form))


def test_the_published_target_is_written_as_published(load_tiny: Callable[[], KgLLM]) -> None:
    llm = with_markers(load_tiny(), preset("gcr"))
    form = PathFormat(start="<PATH>", end="</PATH>")
    (row,), _ = encode(llm, EXAMPLES[:1], form, 512)
    learnt = [label for label in row["labels"] if label >= 0]
    target = "# Reasoning Path:\n<PATH>Ann -> zoo.likes.animal -> A gnu</PATH>\n# Answer:\nA gnu"
    assert llm.encoder.decode(learnt[:-1]) == target
    assert learnt[-1] == llm.encoder.eos_id
    assert row["labels"][len(row["labels"]) - len(learnt) :] == learnt
    prompt = llm.prompt_ids(EXAMPLES[0].question, EXAMPLES[0].topics)
    assert row["input_ids"][: len(prompt)] == prompt


def test_an_adapter_may_bring_markers_of_its_own(
    load_tiny: Callable[[], KgLLM], tiny_folder: Path, tmp_path: Path
) -> None:
    card = replace(preset("gcr"), chat=False)
    form = PathFormat(start=card.start, end=card.end)
    settings = SETTINGS.model_copy(update={"max_tokens": 512})
    llm = load_tiny().with_card(card)
    train(llm, EXAMPLES, [], form, tmp_path / "a", settings, data={}, progress=Silent())
    tuned = load_kg_llm(
        str(tiny_folder), str(tmp_path / "a"), device="cpu", cache=tmp_path, progress=Silent()
    )
    start = tuned.encoder.marker_id("<PATH>")
    assert start is not None
    stored = weights(tmp_path / "a")
    rows = [value for name, value in stored.items() if "trainable_tokens" in name]
    assert rows
    embedded = tuned.model.get_input_embeddings().weight[start].float()
    assert any(torch.allclose(row[0].float(), embedded, atol=1e-2) for row in rows)
    assert loss_of(tuned, form) < loss_of(with_markers(load_tiny(), card), form) - 0.5
