"""The command line: parse, call, print. Everything heavy is imported inside the commands."""

from kgqa.cli.app import main

__all__ = ["main"]
