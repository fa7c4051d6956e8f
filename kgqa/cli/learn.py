"""``kgqa learn``: the KG's own path ranker."""

from __future__ import annotations

from typing import Any

from kgqa.api import training
from kgqa.cli.common import Run, takes_options


@takes_options(training.LearnOptions)
def learn(run: Run, options: dict[str, Any]) -> None:
    """Learn how people ask for a KG's relations, from the KG alone or also from questions."""
    with run.kg() as kg:
        report = kg.learn(**options)
        name = kg.name
    run.print(lambda: show_learnt(name, report), report.to_dict())


def show_learnt(name: str, report: Any) -> None:
    """Print what learning the KG ``name`` gave."""
    from kgqa.cli.terminal import say

    say(
        f"{report.made:,} made questions, {report.questions:,} of people, {report.seconds:.0f} s. "
        f"Of {report.held_out:,} questions that were held out, its own ranker puts the right "
        f"relation path first for {report.first_after:.0f} %, the universal one for "
        f"{report.first_before:.0f} %."
    )
    if report.folder is None:
        say("This is not reliably better, so questions are answered as before.")
    else:
        say(f'{name} has its own ranker now: kgqa ask "…" --kg {name}')
    if (trained := report.adapter) is not None:
        say(
            f"Its own adapter was trained on {trained.examples:,} examples in "
            f"{trained.seconds:.0f} s; the method gcr uses it now."
        )
        if trained.path_accuracy is not None:
            say(
                f"Of {trained.checked:,} questions that were held out, the best path is right for "
                f"{trained.path_accuracy:.0f} %."
            )
