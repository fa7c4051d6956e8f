"""Training a KG-LLM's adapter or a graph reasoner from questions and a KG."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from kgqa.extras import require_llm_packages
from kgqa.registry import validated
from kgqa.training.options import (
    AdapterTraining,
    ExampleOptions,
    LearnOptions,
    ReasonerTraining,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.api.home import Home
    from kgqa.graph.store import GraphStore
    from kgqa.training.reports import AdapterReport, ExamplesReport, LearnReport, ReasonerReport

__all__ = [
    "AdapterTraining",
    "ExampleOptions",
    "LearnOptions",
    "ReasonerTraining",
    "learn",
    "train_adapter",
    "train_reasoner",
    "training_examples",
]

_TRAINING = "Training"


def training_examples(home: Home, out: Path, given: dict[str, Any]) -> ExamplesReport:
    """Write the training examples of :class:`ExampleOptions` to a file for inspection."""
    options: ExampleOptions = validated(ExampleOptions, given, "kgqa train data")
    require_llm_packages("Making examples for a language model")
    from kgqa.training.adapters import training_examples

    with _store_for(home, options) as store:
        return training_examples(store, options, out, **_training_context(home))


def train_adapter(home: Home, out: Path, given: dict[str, Any]) -> AdapterReport:
    """Train a LoRA adapter, or all weights, into a folder; a stopped run is continued.

    ``given`` are the fields of :class:`AdapterTraining`. Raises UsageError, DataError, ModelError.
    """
    given = {**given, "model": given.get("model") or home.settings.model}
    options: AdapterTraining = validated(AdapterTraining, given, "kgqa train run")
    require_llm_packages(_TRAINING)
    from kgqa.training.adapters import train_adapter

    with _store_for(home, options) as store:
        return train_adapter(store, options, out, **_training_context(home))


def train_reasoner(home: Home, out: Path, given: dict[str, Any]) -> ReasonerReport:
    """Train a graph reasoner into a folder; a stopped run is continued.

    ``given`` are the fields of :class:`ReasonerTraining`. Raises UsageError, DataError, ModelError.
    """
    options: ReasonerTraining = validated(ReasonerTraining, given, "kgqa train kg-cot")
    require_llm_packages(_TRAINING)
    with home.open_store() as store:
        from kgqa.training.reasoners import train_reasoner

        return train_reasoner(store, options, out, **_training_context(home))


def learn(home: Home, store: GraphStore, given: dict[str, Any]) -> LearnReport:
    """Fit the KG's own path ranker; see :meth:`kgqa.KG.learn`."""
    options: LearnOptions = validated(LearnOptions, given, "kgqa learn")
    require_llm_packages(_TRAINING)
    from kgqa.files import writing
    from kgqa.models.path_ranker import universal_ranker
    from kgqa.training.rankers import learn

    folder, kg = home.folder(store.info.name), store.info.name
    universal = universal_ranker(home.settings.encoder, home.settings.cache_folder)
    with writing(folder, kg):
        report = learn(store, folder, options, universal=universal, **_training_context(home))
        if not options.adapter:
            return report
        return report.model_copy(update={"adapter": _own_adapter(home, store, folder, options)})


def _own_adapter(
    home: Home, store: GraphStore, folder: Path, options: LearnOptions
) -> AdapterReport:
    """Train the KG's own adapter on people's questions, and write it to ``folder``.

    It starts from the adapter of the settings, or the best matching one.
    """
    from kgqa.models.kg_llm import OWN_ADAPTER, suited_adapter
    from kgqa.training.adapters import train_adapter

    model = home.settings.model
    start = home.settings.adapter or suited_adapter(model, None, store.relations().known)
    out = folder / OWN_ADAPTER
    training = AdapterTraining(
        questions=(f"{options.format}={options.questions}",),
        held_out=False,
        model=model,
        start_from=start if model is None else None,
        epochs=3.0,
        learning_rate=3e-4,
        batch_size=8,
        loss="relations",
        seed=options.seed,
    )
    return train_adapter(store, training, out, **_training_context(home))


def _store_for(home: Home, options: ExampleOptions) -> AbstractContextManager[GraphStore | None]:
    """Open the store if the options need one, else yield None."""
    return home.open_store() if options.needs_store else nullcontext()


def _training_context(home: Home) -> dict[str, Any]:
    """Return device, cache folder and progress as keyword arguments for training."""
    settings = home.settings
    return {
        "device": settings.device,
        "cache": settings.cache_folder,
        "progress": home.progress,
    }
