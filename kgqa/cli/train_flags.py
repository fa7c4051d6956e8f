"""What every way of training has: flags of questions, of those made from the KG, and of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgqa.cli.train_questions import TrainForm
from kgqa.errors import UsageError

FormFlag = Annotated[TrainForm, typer.Option("--format", help="The form of the files.")]
TopicsFlag = Annotated[
    Path | None, typer.Option(help="Topic entities by question id, for lines that name none.")
]
SelfFlag = Annotated[
    bool, typer.Option("--self", help="Make questions from the KG: from its relations' names.")
]
TemplatesFlag = Annotated[
    Path | None,
    typer.Option(help="A file of relations' phrases: also train on questions made from them."),
]
PerRelationFlag = Annotated[int, typer.Option(help="Made examples of a relation.", min=0)]
PerPairFlag = Annotated[
    int, typer.Option(help="Made examples of several relations in turn.", min=0)
]
EntitiesFlag = Annotated[int, typer.Option(help="Entities that --self looks at.", min=1)]
HeldOutFlag = Annotated[bool, typer.Option(help="Leave a fixed fifth out.")]
SeedFlag = Annotated[int, typer.Option(help="Seed.", min=0)]
ResumeFlag = Annotated[
    bool, typer.Option(help="Go on from the last checkpoint of a run that was stopped.")
]
CheckpointEveryFlag = Annotated[
    int, typer.Option(help="Steps between checkpoints; 0: none.", min=0)
]


def nothing_to_train_on() -> UsageError:
    """Return the error where neither a file nor the KG gives questions."""
    return UsageError(
        "There is nothing to train on.",
        "Name a file of questions (--questions), or --self to make them from the KG.",
    )
