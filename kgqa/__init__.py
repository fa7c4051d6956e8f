"""Answers from a knowledge graph, each with a path of facts that no language model can make up.

>>> import kgqa
>>> kg = kgqa.ingest("triples", "my.tsv")                # doctest: +SKIP
>>> answer = kg.ask("Who is on call for checkout-api?")  # doctest: +SKIP
>>> answer.best.name, answer.paths[0].text               # doctest: +SKIP

Names are imported when they are first used: ``import kgqa`` loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgqa.version import __version__

if TYPE_CHECKING:
    from kgqa.answers.answer import Answer, RankedAnswer, ScoredPath, TopicEntity
    from kgqa.api import (
        KG,
        QA,
        PathLanguage,
        ask,
        attach,
        compare,
        delete,
        ingest,
        open,
        options,
        processor,
        setup,
        status,
    )
    from kgqa.api.check import Check
    from kgqa.errors import KgqaError
    from kgqa.evaluation import Comparison, Evaluation
    from kgqa.queries.result import QueryResult
    from kgqa.questions import Question, read_questions
    from kgqa.registry import Options, option

_NAMES = {
    "kgqa.answers.answer": ("Answer", "RankedAnswer", "ScoredPath", "TopicEntity"),
    "kgqa.api": (
        *("KG", "QA", "PathLanguage", "ask", "attach", "compare", "delete", "ingest", "open"),
        *("options", "processor", "setup", "status"),
    ),
    "kgqa.api.check": ("Check",),
    "kgqa.errors": ("KgqaError",),
    "kgqa.evaluation": ("Comparison", "Evaluation"),
    "kgqa.queries.result": ("QueryResult",),
    "kgqa.questions": ("Question", "read_questions"),
    "kgqa.registry": ("Options", "option"),
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "KG",
    "QA",
    "Answer",
    "Check",
    "Comparison",
    "Evaluation",
    "KgqaError",
    "Options",
    "PathLanguage",
    "QueryResult",
    "Question",
    "RankedAnswer",
    "ScoredPath",
    "TopicEntity",
    "__version__",
    "ask",
    "attach",
    "compare",
    "delete",
    "ingest",
    "open",
    "option",
    "options",
    "processor",
    "read_questions",
    "setup",
    "status",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        from importlib import import_module

        value = getattr(import_module(_WHERE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'kgqa' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
