"""The application and its one exit: an error is a line on stderr, never a traceback.

A command's module is imported when the command is run or asked for its help, so that the help of
the whole loads nothing.
"""

from __future__ import annotations

import io
import os
import re
import sys
import traceback
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from kgqa.cli.common import Global, add_command, as_flags
from kgqa.display import visible
from kgqa.errors import NO_MEMORY, KgqaError, is_out_of_memory, without_secrets
from kgqa.version import __version__

_LONGEST = 500  # characters of a word in an error, which may be what was given
STOPPED = 130  # the exit code of a program that Ctrl-C ended

COMMANDS = {
    "setup": "Install the offline models, once.",
    "ingest": "Load tables, triples, RDF, graphs, text or a dump (Freebase, ConceptNet, UMLS).",
    "update": "Add triples to a KG, and remove others.",
    "ask": "Answer questions with facts, and show the path of facts behind each answer.",
    "serve": "Serve a page, an HTTP API, a chat endpoint and MCP.",
    "query": "Run a plan over the whole graph, without a model.",
    "learn": "Fit a KG's own path ranker to people's questions.",
    "paths": "Show the paths of an entity.",
    "link": "Show which entities a question may be about.",
    "check": "Check whether a statement is in the graph, and show its edges.",
    "precompute-tries": "Build the trie index, or continue a run that was stopped.",
    "tries": "Look at the tries that constrain a model.",
    "rm": "Delete a KG, its index and what it learned.",
    "status": "Show the KGs, models and indexes, and what is missing.",
    "options": "List methods, searches, loaders, stores and formats with their options.",
    "attach": "Use a Neo4j database or a SPARQL endpoint as it is, read-only.",
    "eval": "Answer a file of questions and measure it, or compare two runs.",
    "train": "Train an adapter or a graph reasoner.",
}
"""Each command's name, which with ``_`` for ``-`` is its module's and function's, and its help."""


class Commands(TyperGroup):
    """The group of commands, each imported when it is needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands' names in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; None if the name is unknown."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = import_module(f"kgqa.cli.{name}")
        group: typer.Typer | None = getattr(module, "app", None)
        if group is None:
            group = typer.Typer(rich_markup_mode=None, add_completion=False)
            add_command(group, cmd_name, getattr(module, name))
        command: Any = get_command(group)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with its help sentence, without importing it."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    name="kgqa",
    cls=Commands,
    help="Answers from a knowledge graph, each with a path of facts that no model made up.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # loading rich takes longer than everything else that --help does
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    """Print the version and exit, if ``wanted``."""
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


def main() -> None:
    """Run the command line; turn an error into one line and an exit code.

    0: done; 1: an error, in one line on stderr; 130: stopped by the user.
    """
    before = os.umask(0o077)  # until it is known where is written to, see Run.home
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed: its number would be the next file's, a KG's too
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115
    try:
        _main()
    finally:
        os.umask(before)


def _main() -> None:
    """Run the command line, and report each kind of error in its way."""
    debug = "--debug" in sys.argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # for a name that the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except KgqaError as error:
        _fail(str(error), debug)
    except BrokenPipeError:
        # whoever read the output has gone; nothing may complain about that at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        _report_stop()
    except SystemExit:
        raise
    except BaseException as error:  # a Rust library's panic is not an Exception
        if is_out_of_memory(error):
            _fail(" ".join(NO_MEMORY), debug)
        if isinstance(error, OSError):
            _fail(
                f"{error.filename or 'A file'} cannot be read or written: "
                f"{error.strerror or error}. See that you may, and that the disk has room.",
                debug,
            )
        if hasattr(error, "format_message"):  # Typer's own, about options and arguments
            _report_misuse(error)
        _fail(
            f"Something went wrong that should not ({type(error).__name__}: {error}). "
            "Run the command again with --debug to see where, and report it.",
            debug,
        )
    if code == STOPPED:
        _report_stop()
    if code:
        sys.exit(code)


def _report_misuse(error: Any) -> NoReturn:
    """Report an unknown or malformed option or argument, with a hint, and exit."""
    command = error.ctx.command_path if getattr(error, "ctx", None) else "kgqa"
    message = error.format_message().replace("Value error, ", "")
    unknown = re.match(r"No such option: --(?:no-)?([a-z-]+)", message)
    if unknown is not None:
        from kgqa.registry import is_option

        name = unknown[1].replace("-", "_")
        if is_option(name):
            _fail(f"{unknown[0]}. Set it by --set {name}=VALUE. See: {command} --help")
    if type(error).__name__ == "NoArgsIsHelpError":  # `kgqa` alone asks what there is
        print(message)
        sys.exit(0)
    _fail(f"{message.rstrip('.')}. See: {command} --help")


def _report_stop() -> NoReturn:
    """Print that the command was stopped, and exit."""
    print("Stopped.", file=sys.stderr)
    sys.exit(STOPPED)


def _fail(text: str, debug: bool = False) -> NoReturn:
    """Print an error in one line (with ``debug``, after its traceback), and exit.

    Credentials are removed from both: errors of other libraries may hold them.
    """
    if debug:
        for part in traceback.format_exception(sys.exception()):
            for said in without_secrets(part).rstrip("\n").split("\n"):
                print(visible(said), file=sys.stderr)
    line = " ".join(without_secrets(as_flags(text)).split())
    line = re.sub(rf"(\S{{{_LONGEST}}})\S+", r"\1…", line)
    print(f"Error: {visible(line)}", file=sys.stderr)
    sys.exit(1)
