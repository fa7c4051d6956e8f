"""What the commands share: global options, flags made of options models, progress and printing."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer
from typer.core import TyperCommand

from kgqa.display import json_text
from kgqa.errors import UsageError, without_secrets
from kgqa.files import read_settings
from kgqa.permissions import mask_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from pydantic.fields import FieldInfo

    from kgqa.api import KG, Home
    from kgqa.progress import Progress, Task
    from kgqa.registry import Options, Registry


@dataclass(frozen=True, slots=True)
class Global:
    """The global options, given before or after any command's name."""

    kg: str | None = None
    graph: str | None = None
    home: str | None = None
    as_json: bool = False
    debug: bool = False


class Run:
    """One run of a command: its home, progress, and printing."""

    def __init__(self, options: Global) -> None:
        self.options = options
        self.as_json = options.as_json

    @functools.cached_property
    def home(self) -> Home:
        """The home folder with its settings; flags override the environment.

        Sets the process's umask after the folder's permissions.
        """
        from kgqa.api import Home

        given = self.options
        home = Home(given.home, graph=given.graph, kg=given.kg, progress=self.progress)
        os.umask(mask_of(home.settings.home))
        return home

    @functools.cached_property
    def progress(self) -> Progress:
        """The display of progress and notes on stderr."""
        return _Terminal()

    def kg(self) -> KG:
        """Open the KG of the global options, as a context."""
        from kgqa.api import KG

        return KG.of(self.home)

    def note(self, text: str) -> None:
        """Print a note on stderr, without credentials."""
        self.progress.note(without_secrets(text))

    def say(self, *lines: str) -> None:
        """Print lines of text on stdout."""
        from kgqa.cli.terminal import say

        for line in lines:
            say(line)

    def print(self, human: Callable[[], None], result: Mapping[str, Any]) -> None:
        """Print a result as one JSON object if requested, else as text by calling ``human``."""
        if self.as_json:
            unicode = "utf" in (sys.stdout.encoding or "").casefold()
            sys.stdout.write(json_text(result, ascii_only=not unicode) + "\n")
        else:
            human()


class _Terminal:
    """Shows progress on the terminal; the terminal module is imported at first use."""

    @functools.cached_property
    def _terminal(self) -> Progress:
        """The terminal's progress display."""
        from kgqa.cli.terminal import TerminalProgress

        return TerminalProgress(as_flags)

    def task(
        self, what: str, total: int | None = None, unit: str = ""
    ) -> AbstractContextManager[Task]:
        """Show a task on the terminal while its ``with`` block runs."""
        return self._terminal.task(what, total, unit)

    def note(self, text: str) -> None:
        """Show a note on the terminal."""
        self._terminal.note(text)


_COMMON: dict[str, Any] = {
    "kg": Annotated[str | None, typer.Option(help="The KG's name (default: the only KG).")],
    "graph": Annotated[
        str | None,
        typer.Option(help="The store: sqlite:///…, neo4j://host:7687, bolt://host:7687."),
    ],
    "home": Annotated[str | None, typer.Option(help="The folder where kgqa keeps its data.")],
    "as_json": Annotated[
        bool, typer.Option("--json", help="Print one JSON object to stdout and nothing else.")
    ],
    "debug": Annotated[bool, typer.Option("--debug", help="Show tracebacks.")],
}
_EVERYWHERE = "For every command"
_flags: dict[str, str] = {}  # of the command that runs: parameter -> its flag


def as_flags(text: str) -> str:
    """Replace each parameter in backticks by the running command's flag for it.

    Below the command line, errors name parameters: `hops` is ``--hops`` if the command has that
    flag, and ``--set NAME=…`` for an option that it takes by ``--set``.
    """

    def flag(match: re.Match[str]) -> str:
        """Return the flag of a parameter, or the parameter unchanged."""
        name = match[1]
        if name in _flags:
            return _flags[name]
        return f"--set {name}=…" if "set" in _flags else match[0]

    return re.sub(r"`([a-z][a-z0-9_]*)`", flag, text)


class GroupedCommand(TyperCommand):
    """A command whose help lists options under the heading of their group."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then each group of options."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                argument = parameter.param_type_name == "argument"
                group = getattr(parameter, "rich_help_panel", None) or "Options"
                groups.setdefault("Arguments" if argument else group, []).append(record)
        last = groups.pop(_EVERYWHERE, [])
        for title, rows in [*groups.items(), (_EVERYWHERE, last)]:
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def takes_options(
    *sources: Registry | type[Options], every: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark a command as taking the options of models: it gets them as ``options``, a dictionary.

    Marked fields become flags (with ``every``, all fields); the rest are given by ``--set`` or in a
    settings file. Flags go above ``--set``, which goes above the file.
    """

    def mark(function: Callable[..., None]) -> Callable[..., None]:
        """Store the models on the command's function."""
        function.option_sources = sources, every  # type: ignore[attr-defined]
        return function

    return mark


def add_command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Register ``function`` as a command that also takes the global options.

    The first parameter of ``function`` is the :class:`Run`; the rest are the command's own.
    """
    sources, every = getattr(function, "option_sources", ((), False))
    fields = _flags_of(sources, every)

    @functools.wraps(function)
    def run(ctx: typer.Context, **given: Any) -> None:
        """Build the Run and the options from the parsed flags, and call the function."""
        before = ctx.find_object(Global) or Global()
        chosen = {field: given.pop(field) or getattr(before, field) for field in _COMMON}
        _flags.clear()
        _flags.update({each.name: each.opts[-1] for each in ctx.command.params if each.name})
        _flags.setdefault("entities", "--entity")
        if sources:
            flags = {name: given.pop(name) for name in fields}
            settings = _set_options(given.pop("set"), given.pop("settings"))
            given["options"] = settings | {n: v for n, v in flags.items() if v is not None}
        function(Run(Global(**chosen)), **given)

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    own = [parameter for parameter in own if parameter.name != "options" or not sources]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("ctx", keyword, annotation=typer.Context)]
    parameters += [parameter.replace(kind=keyword) for parameter in own]
    parameters += [_flag_parameter(field, info) for field, info in fields.items()]
    if sources:
        parameters += [
            inspect.Parameter("set", keyword, annotation=_SET, default=None),
            inspect.Parameter("settings", keyword, annotation=_SETTINGS, default=None),
        ]
    for field, kind in _COMMON.items():
        option = get_args(kind)[1]
        option.rich_help_panel = _EVERYWHERE
        default = False if field in ("as_json", "debug") else None
        parameters.append(inspect.Parameter(field, keyword, annotation=kind, default=default))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__
    app.command(name, cls=GroupedCommand)(run)


_SET = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any other option; `kgqa options NAME` lists them."
    ),
]
_SETTINGS = Annotated[
    Path | None, typer.Option("--settings", help="A file of options: TOML or JSON.")
]


def _flags_of(sources: tuple[Registry | type[Options], ...], every: bool) -> dict[str, FieldInfo]:
    """Return the option fields that become flags, by name; the first model's help wins.

    ``every``: all fields become flags, not only marked ones.
    """
    if not sources:
        return {}
    from kgqa.registry import Registry, is_flag

    models: list[type[Options]] = []
    for source in sources:
        if isinstance(source, Registry):
            models += [entry.options_model() for entry in source.table]
        else:
            models.append(source)
    fields: dict[str, FieldInfo] = {}
    for model in models:
        for name, info in model.model_fields.items():
            if every or is_flag(info):
                fields.setdefault(name, info)
    return fields


def _flag_parameter(name: str, info: FieldInfo) -> inspect.Parameter:
    """Return the command's parameter for a field: None if not given, for the model's default."""
    kind: Any = info.annotation
    if get_origin(kind) in (Union, UnionType):
        kinds = [part for part in get_args(kind) if part is not type(None)]
        kind = kinds[0] if len(kinds) == 1 else str
    if get_origin(kind) in (list, tuple):
        kind = list[get_args(kind)[0]]  # type: ignore[misc]
    elif kind not in (bool, int, float, str, Path) and get_origin(kind) is not Literal:
        kind = str  # the model converts it
    flag = _flag_name(name)
    declared = f"{flag}/--no-{flag[2:]}" if kind is bool and info.default is not False else flag
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    text = re.sub(r"`(\w+)`", lambda match: _flag_name(match[1]), info.description or "")
    if isinstance(info.default, str | int | float) and not isinstance(info.default, bool):
        text += f" [{info.default}]"
    option = typer.Option(declared, help=text, rich_help_panel=str(extra.get("group") or "Options"))
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, annotation=Annotated[kind | None, option], default=None)


def _flag_name(name: str) -> str:
    """Return the flag of a parameter: ``--`` and hyphens."""
    return f"--{name.replace('_', '-')}"


def _set_options(pairs: list[str] | None, file: Path | None) -> dict[str, Any]:
    """Parse the options of ``--set``, which win, and of a settings file. Raises UsageError."""
    given = _read_settings_file(file) if file is not None else {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f"'{pair}' does not set an option.", "Write --set NAME=VALUE, e.g. --set k=20."
            )
        given[name.strip().replace("-", "_")] = value
    return given


def _read_settings_file(file: Path) -> dict[str, Any]:
    """Parse a settings file of TOML or JSON. Raises UsageError."""
    try:
        given = read_settings(file)
    except OSError as error:
        raise UsageError(f"The settings file {file} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        kind = "JSON" if file.suffix == ".json" else "TOML"
        raise UsageError(f"The settings file {file} is not {kind}: {error}.") from None
    if not isinstance(given, dict):
        raise UsageError(f"The settings file {file} holds no object.", 'Write {"k": 20}.')
    return {name.replace("-", "_"): value for name, value in given.items()}
