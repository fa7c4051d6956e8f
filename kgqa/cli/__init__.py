"""The command line: parse, call, print. Everything heavy is imported inside the commands."""

import os
import sys

# Read when numpy is first imported: its threads only wait for each other over matrices as small as
# ours, and twice the CPU time is spent. torch has threads of its own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    """Run the command line, see :mod:`kgqa.cli.app`."""
    try:
        from kgqa.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
