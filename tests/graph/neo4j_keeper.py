"""A program that starts a Neo4j and stops it when its own standard input ends.

    python neo4j_keeper.py HOME ARGUMENT…     (the arguments of `scripts/neo4j start`)

Whoever started the program holds the other end of its standard input, so the server goes when they
do, however they end: a test run that is killed leaves none behind. It prints one JSON object when
the server is up, or has failed: what `scripts/neo4j start` returned and wrote.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

# A server that lives for minutes: compiling less of it halves what its start costs the processor,
# as long as it has room for all of its code: without the optimising compiler Java keeps 48 MB.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "neo4j"


def main() -> int:
    home, *arguments = sys.argv[1:]
    # without the caller's own Neo4j settings
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NEO4J_", "KGQA_"))}
    env.setdefault("JAVA_TOOL_OPTIONS", JAVA_OPTIONS)
    try:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "start", "--home", home, *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        report = {"code": done.returncode, "out": done.stdout, "err": done.stderr}
        with contextlib.suppress(BrokenPipeError):  # they have ended meanwhile
            print(json.dumps(report), flush=True)
        sys.stdin.buffer.read()
    finally:
        subprocess.run(
            [sys.executable, str(SCRIPT), "stop", "--home", home],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
