"""What all commands share: the global options, settings, output, and opening what they need."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from kgqa.config import Settings
    from kgqa.graph.store import GraphStore
    from kgqa.paths.ground import Fact
    from kgqa.progress import Progress


_OTHERS = 5  # entities of a shared name that are listed

DirectionFlag = Annotated[
    Literal["out", "in", "both"] | None, typer.Option(help="Which way edges are walked.")
]
MediatorsFlag = Annotated[
    Literal["collapse", "keep"] | None, typer.Option(help="What becomes of mediators.")
]


@dataclass(frozen=True, slots=True)
class Global:
    """The options that stand before or after any command."""

    kg: str | None = None
    graph: str | None = None
    home: str | None = None
    as_json: bool = False
    debug: bool = False


class Run:
    """One run of a command: its settings, its progress, and its one way of printing."""

    def __init__(self, options: Global) -> None:
        self.options = options
        self.as_json = options.as_json

    @functools.cached_property
    def settings(self) -> Settings:
        """The settings, with the command's flags above the environment."""
        from kgqa.config import load_settings

        return load_settings(kg=self.options.kg, graph=self.options.graph, home=self.options.home)

    @functools.cached_property
    def progress(self) -> Progress:
        """Where progress and notes are shown: stderr."""
        from kgqa.cli.show import TerminalProgress

        return TerminalProgress()

    @property
    def graph_url(self) -> str | Path:
        """The store's URL, or the home where KGs lie in SQLite."""
        return self.settings.graph_url or self.settings.home

    @property
    def credentials(self) -> dict[str, str | None]:
        """What a store is opened with beside its URL: a server's account, and the home."""
        secret = self.settings.neo4j_password
        return {
            "username": self.settings.neo4j_username,
            "password": secret.get_secret_value() if secret else None,
            "database": self.settings.neo4j_database,
            "home": str(self.settings.home),
        }

    def open_store(self) -> GraphStore:
        """Open the KG that is meant."""
        from kgqa.graph.open import open_store

        return open_store(self.graph_url, self.settings.kg, **self.credentials)

    def tries_folder(self, kg: str) -> Path:
        """Where the indexes of a KG lie."""
        return self.settings.kg_folder(kg) / "tries"

    def note(self, text: str) -> None:
        """Tell the user something on stderr, without credentials."""
        from kgqa.errors import without_secrets

        self.progress.note(without_secrets(text))

    def print(self, human: Callable[[], None], result: dict[str, Any]) -> None:
        """Print the result: one JSON object where it was asked for, else as ``human`` draws it."""
        if self.as_json:
            unicode = "utf" in (sys.stdout.encoding or "").casefold()
            sys.stdout.write(json.dumps(result, ensure_ascii=not unicode) + "\n")
        else:
            human()


_COMMON: dict[str, Any] = {
    "kg": Annotated[str | None, typer.Option(help="The KG's name.")],
    "graph": Annotated[
        str | None,
        typer.Option(help="The store: sqlite:///path, neo4j://host:7687 or bolt://…."),
    ],
    "home": Annotated[
        str | None,
        typer.Option(help="The folder where kgqa keeps its data."),
    ],
    "as_json": Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object on stdout, nothing else."),
    ],
    "debug": Annotated[bool, typer.Option("--debug", help="Show tracebacks.")],
}


def command(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], None]:
    """Register a function as a command that takes the global options too.

    Its first parameter is the :class:`Run`; the rest are the command's own.
    """

    def register(function: Callable[..., None]) -> None:
        @functools.wraps(function)
        def run(ctx: typer.Context, **given: Any) -> None:
            before = ctx.find_object(Global) or Global()
            chosen = {field: given.pop(field) or getattr(before, field) for field in _COMMON}
            function(Run(Global(**chosen)), **given)

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter("ctx", keyword, annotation=typer.Context),
            *(parameter.replace(kind=keyword) for parameter in own),
            *(
                inspect.Parameter(
                    field,
                    keyword,
                    annotation=kind,
                    default=False if field in ("as_json", "debug") else None,
                )
                for field, kind in _COMMON.items()
            ),
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        del run.__wrapped__
        app.command(name)(run)

    return register


def others_of(found: Sequence[Any]) -> str:
    """Return the first few entities as a note lists them, and how many more there are."""
    shown = ", ".join(f"{one.name} ({one.id})" for one in found[:_OTHERS])
    more = len(found) - _OTHERS
    return f"{shown} and {more} more" if more > 0 else shown


def browser_link(run: Run, store: GraphStore, facts: Iterable[Fact]) -> str | None:
    """Return the Neo4j Browser link that draws ``facts``, None where the store is no Neo4j."""
    if store.url.startswith("sqlite"):
        return None
    from kgqa.graph.browser import browser_url

    triples = [(fact.head, fact.predicate, fact.tail) for fact in facts]
    return browser_url(store, triples, run.settings.neo4j_browser)


def file_text_lines(path: Path, what: str) -> list[str]:
    """Return the lines of a UTF-8 text file. Raises DataError where it cannot be read.

    A line ends where an editor ends it: other separators (U+2028, form feeds, …) are text, since
    names and JSON may hold them. A byte order mark is left out.
    """
    from kgqa.errors import DataError

    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise DataError(
            f"The {what} {path} cannot be read: {error.strerror or error}.", "Check the path."
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"The {what} {path} is not UTF-8 text: {error.reason} at byte {error.start:,}.",
            "Give a text file in UTF-8.",
        ) from None
    return text.removesuffix("\n").split("\n") if text else []
