"""``kgqa learn``: the KG's own path ranker."""

from __future__ import annotations

from typing import Any

from kgqa.api import training
from kgqa.cli.common import Run, takes_options


@takes_options(training.LearnOptions)
def learn(run: Run, options: dict[str, Any]) -> None:
    """Fit the KG's own path ranker to people's questions; keep it if it is better."""
    with run.kg() as kg:
        report = kg.learn(**options)
        name = kg.name
    run.print(lambda: _show(name, report), report.to_dict())


def _show(name: str, report: Any) -> None:
    """Print what was learned, and whether the ranker is kept."""
    from kgqa.cli.terminal import say

    if not report.questions:
        say(f"Questions about {name} are answered by these phrases now.")
        return
    say(
        f"Learnt from {report.questions:,} questions in {report.seconds:.0f} s. Held out in turn, "
        f"the right relation path comes first for {report.first_after:.0f} % of them with the KG's "
        f"own ranker, for {report.first_before:.0f} % without it."
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
