"""Run commands of kgqa in this process, where no package of ``kgqa[llm]`` can be imported.

Reads a JSON list of argument lists on standard input, and writes a JSON list of objects with
``code``, ``out`` and ``error``.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any

BLOCKED = ("torch", "transformers", "peft", "gguf")


class Blocker:
    """A finder of modules that finds none of the packages, installed or not."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main() -> None:
    sys.meta_path.insert(0, Blocker())
    from kgqa.cli import main as kgqa

    done = []
    for arguments in json.load(sys.stdin):
        sys.argv = ["kgqa", *arguments]
        out, error, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            try:
                kgqa()
            except SystemExit as ended:
                code = int(ended.code or 0)
        done.append({"code": code, "out": out.getvalue(), "error": error.getvalue()})
    assert not set(BLOCKED) & set(sys.modules)
    json.dump(done, sys.stdout)


if __name__ == "__main__":
    main()
