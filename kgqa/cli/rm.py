"""``kgqa rm``: delete a KG."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import kgqa
from kgqa.api.home import check_there
from kgqa.cli.common import Run
from kgqa.errors import UsageError, without_secrets


def rm(
    run: Run,
    name: Annotated[str, typer.Argument(metavar="KG", help="The KG's name.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a KG: its graph, its index, and what it learned.

    Of an attached database only kgqa's own record is deleted.
    """
    check_there(run.home, name)
    if not yes:
        if run.as_json or not sys.stdin.isatty():
            raise UsageError(f"Deleting {name} needs to be confirmed.", "Add --yes.")
        place = without_secrets(str(run.home.url))
        typer.confirm(f"Delete {name} in {place} for good?", abort=True)
    deleted = kgqa.delete(name, home=run.home)
    run.print(lambda: run.say(f"Deleted {name}."), deleted)
