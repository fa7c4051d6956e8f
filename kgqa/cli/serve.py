"""``kgqa serve``: a page, an HTTP API, a chat endpoint and MCP, over sessions that stay loaded."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgqa.cli.common import Run, takes_options
from kgqa.errors import UsageError
from kgqa.registry import validated
from kgqa.server.options import ServeOptions

if TYPE_CHECKING:
    from kgqa.api import Home


@takes_options(ServeOptions, every=True)
def serve(
    run: Run,
    options: dict[str, Any],
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Speak MCP over standard input and output instead.")
    ] = False,
) -> None:
    """Serve the page, the HTTP API, the chat endpoint and MCP, for all KGs or those of --kg A,B."""
    if missing := [name for name in ("starlette", "uvicorn", "mcp") if find_spec(name) is None]:
        raise UsageError(
            f"The package {missing[0]} is not installed, and the server needs it.",
            "Install it: pip install 'kgqa[serve]'.",
        )
    from kgqa.server import run as server

    checked: ServeOptions = validated(ServeOptions, options, "kgqa serve")
    given = run.options
    settings = run.home.settings
    kgs = [name.strip() for name in (settings.kg or "").split(",") if name.strip()]

    home = partial(_home, given.home, given.graph)  # which worker processes are given
    if mcp:
        server.serve_stdio(home, checked, kgs)
        return
    key = settings.api_key.get_secret_value() if settings.api_key else None

    def announce(url: str) -> None:
        """Print the server's URL once it listens."""

        def human() -> None:
            """Print the URL in a sentence."""
            typer.echo(f"kgqa serves {url} (Ctrl-C stops it)")

        run.print(human, {"url": url})

    server.serve(home, checked, kgs, key, announce)


def _home(home: str | None, graph: str | None, kg: str | None, **shared: Any) -> Home:
    """Build the home of a KG from the global options."""
    from kgqa.api import Home

    return Home(home, graph=graph, kg=kg, **shared)
