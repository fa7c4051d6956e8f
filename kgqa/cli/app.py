"""The Typer application and its one exit: an error is a line on stderr, never a traceback."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from kgqa import __version__
from kgqa.cli import ask, attach, evaluate, graph, ingest, train, tries, tries_export
from kgqa.cli.common import Global, command
from kgqa.errors import KgqaError, without_secrets

STOPPED = 130  # the exit code of a program that Ctrl-C ended

app = typer.Typer(
    name="kgqa",
    help="Answers from a knowledge graph, each with a path of facts that no model made up.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # loading rich takes longer than everything else that --help does
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
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    ctx.obj = Global(kg, graph, home, as_json, debug)


command(app, "ingest")(ingest.ingest)
command(app, "attach")(attach.attach)
command(app, "precompute-tries")(tries.precompute_tries)
command(app, "ask")(ask.ask)
command(app, "paths")(graph.paths)
command(app, "link")(graph.link)
command(app, "status")(graph.status)
command(app, "eval")(evaluate.evaluate)
app.add_typer(train.app, name="train")
app.add_typer(tries_export.app, name="tries")


def main() -> None:
    """Run the command line, and turn what goes wrong into one line and an exit code.

    0: done; 1: an error, told in one line on stderr; 130: stopped by the user.
    """
    debug = "--debug" in sys.argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name the terminal cannot show is no error
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except KgqaError as error:
        if debug:
            raise
        _fail(str(error))
    except BrokenPipeError:
        # whoever read the output has gone; nothing of ours may complain about that at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        _stopped()
    except Exception as error:
        if hasattr(error, "format_message"):  # Typer's own, about options and arguments
            _misused(error)
        if debug:
            raise
        _fail(
            f"Something went wrong that should not ({type(error).__name__}: {error}). "
            "Run the command again with --debug to see where, and report it."
        )
    if code == STOPPED:
        _stopped()
    if code:
        sys.exit(code)


def _misused(error: Any) -> NoReturn:
    """Tell a wrong option or argument, and where the right ones are listed."""
    command = error.ctx.command_path if getattr(error, "ctx", None) else "kgqa"
    said = error.format_message().replace("Value error, ", "")
    if type(error).__name__ == "NoArgsIsHelpError":  # `kgqa` alone asks what there is
        print(said)
        sys.exit(0)
    _fail(f"{said.rstrip('.')}. See: {command} --help")


def _stopped() -> NoReturn:
    print("Stopped.", file=sys.stderr)
    sys.exit(STOPPED)


def _fail(text: str) -> NoReturn:
    """Print an error on one line, without credentials, and leave."""
    print(f"Error: {' '.join(without_secrets(text).split())}", file=sys.stderr)
    sys.exit(1)
