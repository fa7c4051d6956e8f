"""``python -m kgqa`` is ``kgqa``."""

from kgqa.cli import main

main()
