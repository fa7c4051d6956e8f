"""The Typer application and its one exit: an error is a line on stderr, never a traceback."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from kgqa import __version__
from kgqa.cli import ask, evaluate, graph, train, tries
from kgqa.cli.common import Global, command
from kgqa.errors import KgqaError, without_secrets

app = typer.Typer(
    name="kgqa",
    help="Answers from a knowledge graph, each with a path of facts that no model made up.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kgqa {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    kg: Annotated[str | None, typer.Option(help="The KG's name.")] = None,
    graph: Annotated[str | None, typer.Option(help="The store's URL.")] = None,
    home: Annotated[str | None, typer.Option(help="The folder where kgqa keeps its data.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    ctx.obj = Global(kg, graph, home, as_json, debug)


command(app, "ingest")(graph.ingest)
command(app, "precompute-tries")(tries.precompute_tries)
command(app, "ask")(ask.ask)
command(app, "paths")(graph.paths)
command(app, "link")(graph.link)
command(app, "status")(graph.status)
command(app, "eval")(evaluate.evaluate)
app.add_typer(train.app, name="train")


def main() -> None:
    """Run the command line, and turn what goes wrong into one line and an exit code."""
    debug = "--debug" in sys.argv
    try:
        app(standalone_mode=True)
    except KgqaError as error:
        if debug:
            raise
        print(f"Error: {one_line(error)}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        # whoever read the output has gone; nothing of ours may complain about that at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if debug:
            raise
        kind = type(error).__name__
        print(
            f"Error: Something went wrong that should not ({kind}: {one_line(error)}). "
            "Run the command again with --debug to see where, and report it.",
            file=sys.stderr,
        )
        sys.exit(1)


def one_line(error: BaseException) -> str:
    """Return the words of an error on one line, without credentials."""
    return " ".join(without_secrets(str(error)).split())
