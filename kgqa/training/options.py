"""The options of training: where examples come from, and how a model is trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import model_validator

from kgqa.errors import UsageError
from kgqa.methods.options import WalkOptions
from kgqa.models.adapter import preset
from kgqa.registry import QUESTION_FORMATS, Options, flag, option

Selection: TypeAlias = Literal["best", "shortest"]
Loss: TypeAlias = Literal["path", "relations"]

CHAIN_PRESETS = ("dog-short", "dog")  # the prompts of chains, the usual one first
_WITHOUT_ENTITIES = "medqa"  # the question format whose answers are not entities

# Settings of the published recipe (GCR, arXiv 2410.13080).
_GCR: Mapping[str, Any] = {
    "epochs": 3.0,
    "learning_rate": 2e-5,
    "batch_size": 4,
    "accumulation": 32,
    "max_tokens": 2048,
    "full": True,
}
# A prompt with a graph is thousands of tokens long.
_DOG: Mapping[str, Any] = {"batch_size": 1, "accumulation": 16, "max_tokens": 4096}


class QuestionSource(WalkOptions):
    """The files that questions come from, and which walks of the KG are paths."""

    as_flags: ClassVar[tuple[str, ...]] = ("direction", "mediators")

    questions: tuple[str, ...] = flag((), "A file of questions, or FORMAT=FILE; may be repeated.")
    format: str = flag("jsonl", "The format of files that are named without one.")
    topics: Path | None = flag(None, "Topic entities by question id, for lines that name none.")
    held_out: bool = flag(True, "Hold out a fixed fifth.")
    seed: int = flag(0, "Seed.", ge=0)

    @property
    def files(self) -> list[tuple[str, Path]]:
        """The question files, each with its format."""
        files = []
        for text in self.questions:
            name, equals, file = text.partition("=")
            named = bool(equals) and name in QUESTION_FORMATS.names() and not Path(text).exists()
            files.append((name, Path(file)) if named else (self.format, Path(text)))
        return files

    @model_validator(mode="after")
    def _has_questions(self) -> QuestionSource:
        """Check that there are question files, in formats that fit the other options."""
        if not self.questions:
            raise UsageError(
                "There is nothing to train on.", "Name a file of questions (`questions`)."
            )
        for name in {self.format, *(name for name, _ in self.files)}:
            QUESTION_FORMATS.entry(name)
            if name == _WITHOUT_ENTITIES:
                raise UsageError(f"The answers of the format {name} are not entities of a KG.")
        if self.topics is not None and self.format != "jsonl":
            raise UsageError(
                f"A file of topic entities (`topics`) is not for the format {self.format}, which "
                "has its own.",
                "Leave out `topics`.",
            )
        return self


class ExampleOptions(QuestionSource):
    """Where examples for a KG-LLM come from, and of which form they are."""

    only_for: ClassVar[Mapping[str, tuple[str, str]]] = {
        "triplets": ("method", "dog"),
        "encoder": ("method", "dog"),
    }

    method: Literal["gcr", "dog"] = flag(
        "gcr", "What the model learns to write: paths, or chains of thoughts and triplets."
    )
    preset: str | None = flag(None, "gcr: prompt, markers, paths and settings as published.")
    paths: Selection | None = flag(
        None, "Use paths of the relation paths that fit the answers best, or every shortest path."
    )
    per_question: int | None = flag(
        None, "Maximum number of examples per question (4; with shortest, all).", ge=1
    )
    triplets: int | None = flag(None, "dog: number of triplets in a prompt (120).", ge=1)
    encoder: str | None = flag(None, "dog: the sentence encoder that chooses them (MiniLM).")

    @property
    def prompt_preset(self) -> str | None:
        """The preset whose prompt is asked with; chains have one of their own."""
        return self.preset or (CHAIN_PRESETS[0] if self.method == "dog" else None)

    @property
    def selection(self) -> tuple[Selection, int | None]:
        """How paths are chosen as examples, and the most per question (None: all)."""
        paths: Selection = self.paths or ("shortest" if self.preset == "gcr" else "best")
        every = None if paths == "shortest" else 4
        return paths, self.per_question or every

    @property
    def needs_store(self) -> bool:
        """Whether examples come from the loaded KG, not only from questions' own graphs."""
        return any(name != "rog" for name, _ in self.files)

    @model_validator(mode="after")
    def _fits_method(self) -> ExampleOptions:
        """Check that the preset and the paths fit the method."""
        if self.preset is not None:
            preset(self.preset)  # raises UsageError for an unknown one
        if self.method != "dog" and self.preset in CHAIN_PRESETS:
            raise UsageError(
                f"The `preset` {self.preset} is a prompt for chains.", "Set `method` to dog."
            )
        unused = {
            "paths": self.paths is not None,
            "preset": self.preset not in (None, *CHAIN_PRESETS),
        }
        for name in [name for name, given in unused.items() if given and self.method == "dog"]:
            raise UsageError(
                f"`{name}` has no meaning for the method dog: a chain follows the relation path "
                "that fits a question's answers best, and has a prompt of its own.",
                f"Leave out `{name}`.",
            )
        return self


class FitSettings(Options):
    """The settings of every run that is long enough to be stopped.

    ``free``: those that leave the weights as they are, so that they may change when it goes on.
    """

    free: ClassVar[frozenset[str]] = frozenset({"checkpoint_every", "resume"})

    checkpoint_every: int = flag(100, "Steps between checkpoints; 0: none.", ge=0)
    seed: int = flag(0, "Seed.", ge=0)
    resume: bool = flag(True, "Continue from the last checkpoint of a run that was stopped.")

    def fixed(self) -> dict[str, Any]:
        """Return the settings that influence the weights, which a resumed run must not change."""
        return self.model_dump(exclude=set(self.free))


class TrainingSettings(FitSettings):
    """The settings of a run that trains an adapter or a model."""

    free = FitSettings.free | {"check_every"}

    epochs: float = flag(3.0, "Passes over the examples.", gt=0)
    learning_rate: float = flag(5e-4, "Peak learning rate.", gt=0)
    rank: int = flag(16, "LoRA rank.", ge=1)
    dropout: float = option(0.05, "LoRA dropout.", ge=0, lt=1)
    warmup: float = option(0.03, "Part of the steps in which the learning rate rises.", ge=0, le=1)
    batch_size: int = flag(16, "Number of examples in a batch.", ge=1)
    accumulation: int = flag(1, "Number of batches in a step.", ge=1)
    max_tokens: int = flag(
        256, "Maximum number of tokens in prompt and path; longer examples are left out.", ge=1
    )
    loss: Loss = flag("path", "Train on the whole path, or only on its relations and end.")
    full: bool = flag(False, "Train all weights instead of an adapter.")
    check_every: int = flag(200, "Steps between held-out losses; 0: at the end.", ge=0)


class AdapterTraining(ExampleOptions, TrainingSettings):
    """How a KG-LLM is trained, and on what.

    A setting that is not given is that of the preset or of the method, if these have one.
    """

    model: str | None = flag(None, "The model to train.")
    start_from: str | None = flag(
        None, "An adapter to continue from: its folder, or the name of a bundled one."
    )

    @property
    def settings(self) -> TrainingSettings:
        """The settings of the training run, without those of its examples."""
        usual = _DOG if self.method == "dog" else _GCR if self.preset == "gcr" else {}
        chosen = {**usual, **self.given()}
        return TrainingSettings(
            **{name: chosen[name] for name in TrainingSettings.model_fields if name in chosen}
        )

    @model_validator(mode="after")
    def _can_be_trained(self) -> AdapterTraining:
        """Check that loss and starting adapter fit the other options."""
        if self.method == "dog" and self.loss != "path":
            raise UsageError(
                f"The `loss` {self.loss} is for paths: the names in a chain stand in its prompt.",
                "Leave out `loss`.",
            )
        if self.start_from is not None and self.settings.full:
            raise UsageError(
                "All weights cannot be trained from an adapter's.",
                "Leave out `start_from`, or train an adapter.",
            )
        return self


class ReasonerSettings(FitSettings):
    """The settings of a run that trains a graph reasoner."""

    epochs: float = flag(10.0, "Passes over the questions; may be less than 1.", ge=0.001)
    learning_rate: float = flag(1e-3, "Peak learning rate.", ge=0)
    batch_size: int = flag(16, "Number of questions in a step.", ge=1)
    hidden: int = flag(192, "Number of units in the hidden layers.", ge=1)
    dropout: float = flag(0.2, "Dropout.", ge=0, le=0.9)
    # 100 on WebQSP and 10 on CWQ in the public programs
    answer_weight: float = flag(10.0, "Weight of an answer relative to another entity.", ge=1)
    hop_weight: float = flag(
        0.01, "Weight of the loss of the number of hops, if it is known.", ge=0
    )
    path_weight: float = flag(
        0.1, "Weight of the loss of relation paths; 0: only answers, as published.", ge=0
    )
    checks: int = option(10, "How often the check questions are asked, the end included.", ge=1)


class ReasonerTraining(QuestionSource, ReasonerSettings):
    """How a graph reasoner is trained, and on what."""

    hops: int = flag(
        2, "Number of steps, which is the maximum number of hops of a path.", ge=1, le=32
    )
    encoder: str | None = flag(None, "The question encoder: a name or a folder (MiniLM).")

    @property
    def settings(self) -> ReasonerSettings:
        """The settings of the training run, without those of its questions."""
        return ReasonerSettings(**self.model_dump(include=set(ReasonerSettings.model_fields)))

    @model_validator(mode="after")
    def _asks_one_kg(self) -> ReasonerTraining:
        """Check that all questions are about one KG."""
        if any(name == "rog" for name, _ in self.files):
            raise UsageError(
                "A reasoner walks one KG, and questions of the format rog each have their own.",
                "Load a KG with `kgqa ingest`, and train on questions that are asked of it.",
            )
        return self


class LearnOptions(Options):
    """How a KG's own path ranker is made."""

    questions: Path | None = flag(None, "A file of people's questions with their answers.")
    format: str = flag("jsonl", "The format of the file.")
    phrases: Path | None = flag(
        None,
        "A file of phrases for the relations: written for editing if it is missing, else used.",
    )
    adapter: bool = flag(False, "Also train an adapter for the method gcr, on the questions.")
    start_from: str | None = option(
        None, "The path ranker that is fitted: a name or a folder (default: what suits the KG)."
    )
    encoder: str | None = option(None, "The sentence encoder that it was trained with (MiniLM).")
    learning_rate: float = option(1e-3, "Learning rate.", gt=0)
    seed: int = option(0, "Seed.", ge=0)

    @model_validator(mode="after")
    def _has_questions(self) -> LearnOptions:
        """Check that there is a file to learn from."""
        if self.questions is None and (self.adapter or self.phrases is None):
            raise UsageError(
                "There is nothing to learn from.",
                "Name a file of people's questions with their answers (`questions`).",
            )
        return self
