"""``kgqa train``: a local model learns to write a KG's paths, a graph reasoner to walk them."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgqa.cli.common import Run, command
from kgqa.cli.train_flags import with_flags
from kgqa.registry import validated
from kgqa.training.options import AdapterTraining, ExampleOptions, ReasonerTraining

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.training.reports import AdapterReport, ReasonerReport

app = typer.Typer(help="Fine-tune a local model to write paths.", no_args_is_help=True)

_NAMES = {"full": "--full/--lora"}


@with_flags(ExampleOptions, _NAMES)
def data(
    run: Run,
    out: Annotated[Path, typer.Option(help="The file of examples to write.")],
    **given: Any,
) -> None:
    """Write the training examples that questions and a KG give, to look at them."""
    options: ExampleOptions = validated(ExampleOptions, given, "kgqa train data")
    with _parts(run, options) as parts:
        from kgqa.training.adapters import training_examples

        report = training_examples(options=options, out=out, **parts)
    run.print(lambda: print(f"{report.examples:,} examples in {out}"), report.to_json())


@with_flags(AdapterTraining, _NAMES)
def train_run(
    run: Run,
    out: Annotated[Path, typer.Option(help="The folder for the adapter, or the model.")],
    **given: Any,
) -> None:
    """Train a LoRA adapter or a whole model; a stopped run goes on from its last checkpoint."""
    given["model"] = given["model"] or run.settings.model
    options: AdapterTraining = validated(AdapterTraining, given, "kgqa train run")
    with _parts(run, options) as parts:
        from kgqa.training.adapters import train_adapter

        report = train_adapter(options=options, out=out, **parts)
    run.print(lambda: _show_adapter(report, options), report.to_json())


@with_flags(ReasonerTraining, _NAMES)
def train_kg_cot(
    run: Run,
    out: Annotated[Path, typer.Option(help="The folder for the reasoner.")],
    **given: Any,
) -> None:
    """Train a reasoner for --method kg-cot; a stopped run goes on from its last checkpoint."""
    options: ReasonerTraining = validated(ReasonerTraining, given, "kgqa train kg-cot")
    with run.open_store() as store:
        from kgqa.training.reasoners import train_reasoner

        report = train_reasoner(
            store,
            options,
            out,
            device=run.settings.device,
            cache=run.settings.cache_folder,
            progress=run.progress,
        )
    run.print(lambda: _show_reasoner(report), report.to_json())


@contextmanager
def _parts(run: Run, options: ExampleOptions) -> Iterator[dict[str, Any]]:
    """Open what training a KG-LLM needs: the KG, the general LLM if it is asked, and folders."""
    from contextlib import ExitStack

    from kgqa.cli.making import general_llm

    with ExitStack() as stack:
        general = general_llm(run, options.general_model) if options.self else None
        yield {
            "store": stack.enter_context(run.open_store()) if options.needs_store else None,
            "general": stack.enter_context(general) if general is not None else None,
            "device": run.settings.device,
            "cache": run.settings.cache_folder,
            "progress": run.progress,
        }


def _show_adapter(report: AdapterReport, options: AdapterTraining) -> None:
    held = "none" if report.held_out_loss is None else f"{report.held_out_loss:.3f}"
    right = "" if report.path_accuracy is None else f", path accuracy {report.path_accuracy:.1f} %"
    flag = "--model" if options.settings.full else "--adapter"
    if options.method == "dog":
        flag = f"--method dog {flag}"
    print(
        f"{report.folder}: {report.examples:,} examples, {report.steps:,} steps, loss "
        f"{report.loss:.3f}, held-out loss {held}{right}, {report.seconds / 60:.1f} minutes.\n"
        f'Use it: kgqa ask "…" {flag} {report.folder}'
    )


def _show_reasoner(report: ReasonerReport) -> None:
    print(
        f"{report.folder}: {report.questions:,} questions, best at step {report.steps:,}; of "
        f"{report.checked:,} check questions the first answer is right for "
        f"{report.hits_at_1:.1f} %, one of ten for {report.hit_at_10:.1f} %; "
        f"{report.seconds / 60:.1f} minutes.\n"
        f'Use it: kgqa ask "…" --method kg-cot --reasoner {report.folder}'
    )


command(app, "data")(data)
command(app, "run")(train_run)
command(app, "kg-cot")(train_kg_cot)
