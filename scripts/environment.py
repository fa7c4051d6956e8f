"""Imported first by a script, so that it runs in the checkout's .venv whichever Python began it."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

_AGAIN = "KGQA_SCRIPT_IN_VENV"

if find_spec("pydantic_settings") is None or find_spec("pyarrow") is None:
    python = Path(__file__).resolve().parent.parent / ".venv" / "bin" / "python"
    if os.environ.get(_AGAIN) or not python.exists():
        sys.exit("kgqa's environment is missing or incomplete. Make it with: scripts/demo")
    os.environ[_AGAIN] = "1"
    os.execv(python, [str(python), *sys.argv])
