"""``kgqa learn``: the KG's own path ranker, from people's questions."""

from __future__ import annotations

from typing import Any

from kgqa.api import training
from kgqa.cli.common import Run, takes_options


@takes_options(training.LearnOptions)
def learn(run: Run, options: dict[str, Any]) -> None:
    """Learn from people's questions about a KG, so that others like them are answered better."""
    with run.kg() as kg:
        report = kg.learn(**options)
        name = kg.name

    def human() -> None:
        before, after = (100 * 2.718281828**one for one in (report.before, report.after))
        print(
            f"{report.questions:,} questions, {report.steps:,} steps, {report.seconds:.0f} s. What "
            f"is right had {before:.0f} % of the probability, on held-out questions, and has "
            f"{after:.0f} %."
        )
        if report.folder is None:
            print("That is no better, so the universal ranker stays.")
        else:
            print(f'{name} has its own ranker now: kgqa ask "…" --kg {name}')

    run.print(human, report.to_json())
