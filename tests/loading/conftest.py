"""The command line in this process, as the tests of the command line run it."""

from tests.cli.conftest import kgqa

__all__ = ["kgqa"]
