"""``kgqa link``: which entities a question may be about."""

from __future__ import annotations

from typing import Annotated

import typer

from kgqa.cli.common import Run


def link(
    run: Run,
    question: Annotated[str, typer.Argument(help="A question, or a name.")],
    limit: Annotated[int, typer.Option(help="Number of candidates to show.", min=1)] = 10,
) -> None:
    """Show which entities a question may be about, and how their scores are composed."""
    with run.kg() as kg:
        linked = kg.linked(question, limit)
    candidates = linked["candidates"]

    def human() -> None:
        """Print the candidates and the parts of their scores as tables."""
        from kgqa.cli.terminal import say, show_candidates, show_rows

        show_candidates(candidates)
        say()
        # a column for each feature that adds or takes anything here
        names = candidates[0]["parts"] if candidates else {}
        shown = [
            name for name in names if any(candidate["parts"][name] for candidate in candidates)
        ]
        show_rows(
            "what the scores are made of",
            ["name", *shown],
            [
                (
                    candidate["name"],
                    *(
                        f"{candidate['parts'][n]:+.3f}" if candidate["parts"][n] else ""
                        for n in shown
                    ),
                )
                for candidate in candidates
            ],
        )

    run.print(human, linked)
