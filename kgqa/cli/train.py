"""``kgqa train``: a local model learns to write a KG's paths, a graph reasoner to score them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kgqa.api import training
from kgqa.cli.common import Run, add_command, takes_options

app = typer.Typer(
    help="Fine-tune a local model to write paths.", no_args_is_help=True, rich_markup_mode=None
)

OutFlag = Annotated[Path, typer.Option(help="The folder for the adapter, model or reasoner.")]


@takes_options(training.ExampleOptions)
def data(
    run: Run,
    out: Annotated[Path, typer.Option(help="The file of examples to write.")],
    options: dict[str, Any],
) -> None:
    """Write the training examples made from questions and a KG, for inspection."""
    report = training.training_examples(run.home, out, options)
    run.print(lambda: run.say(f"{report.examples:,} examples in {out}"), report.to_dict())


@takes_options(training.AdapterTraining)
def adapter(run: Run, out: OutFlag, options: dict[str, Any]) -> None:
    """Train a LoRA adapter or a whole model; a stopped run continues from its last checkpoint."""
    report = training.train_adapter(run.home, out, options)
    held = "none" if report.held_out_loss is None else f"{report.held_out_loss:.3f}"
    flag = "--model" if options.get("full") else "--adapter"
    if options.get("method") == "dog":
        flag = f"--method dog {flag}"

    def human() -> None:
        """Print the report of the training as text."""
        run.say(
            f"{report.folder}: {report.examples:,} examples, {report.steps:,} steps, loss "
            f"{report.loss:.3f}, held-out loss {held}, {report.seconds / 60:.1f} minutes.",
            f'Use it: kgqa ask "…" {flag} {report.folder}',
        )

    run.print(human, report.to_dict())


@takes_options(training.ReasonerTraining)
def reasoner(run: Run, out: OutFlag, options: dict[str, Any]) -> None:
    """Train a graph reasoner for --method kg-cot; a stopped run continues from its checkpoint."""
    report = training.train_reasoner(run.home, out, options)

    encoder = f" --set encoder={options['encoder']}" if options.get("encoder") else ""

    def human() -> None:
        """Print the report of the training as text."""
        run.say(
            f"{report.folder}: {report.questions:,} questions, best at step {report.steps:,}; of "
            f"{report.checked:,} check questions the first answer is right for "
            f"{report.hits_at_1:.1f} %, one of ten for {report.hit_at_10:.1f} %; "
            f"{report.seconds / 60:.1f} minutes.",
            f'Use it: kgqa ask "…" --method kg-cot --set reasoner={report.folder}{encoder}',
        )

    run.print(human, report.to_dict())


add_command(app, "data", data)
add_command(app, "run", adapter)
add_command(app, "kg-cot", reasoner)
