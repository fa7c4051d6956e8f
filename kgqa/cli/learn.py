"""``kgqa learn``: the KG's own path ranker."""

from __future__ import annotations

from typing import Any

from kgqa.api import training
from kgqa.cli.common import Run, takes_options


@takes_options(training.LearnOptions)
def learn(run: Run, options: dict[str, Any]) -> None:
    """Learn how people ask for a KG's relations, from the KG alone or their questions too."""
    with run.kg() as kg:
        report = kg.learn(**options)
        name = kg.name
    run.print(lambda: show_learnt(name, report), report.to_dict())


def show_learnt(name: str, report: Any) -> None:
    """Print what learning the KG ``name`` gave."""
    from kgqa.cli.terminal import say

    before, after = (100 * 2.718281828**one for one in (report.before, report.after))
    say(
        f"{report.made:,} made questions, {report.questions:,} of people, "
        f"{report.seconds:.0f} s. On {report.held_out:,} that were held out, what is right had "
        f"{before:.0f} % of the probability, and has {after:.0f} %."
    )
    if report.folder is None:
        say("That is not better, so the universal ranker stays.")
    else:
        say(f'{name} has its own ranker now: kgqa ask "…" --kg {name}')
