"""Measure two methods on the same questions, and whether their difference is significant.

    python examples/compare_methods.py [METHOD METHOD] [--questions N]

The graph and the questions are those of the bundled Freebase sample. They show how to compare
methods, but the figures cannot be compared with a benchmark.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import kgqa

QUESTIONS = Path(kgqa.__file__).parent / "data" / "freebase" / "questions.jsonl"


def main() -> None:
    """Answer the questions with both methods; print both results and the difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=["rank", "kg-cot"])
    parser.add_argument("--questions", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, kgqa.ingest("freebase", home=home) as kg:
        folders = []
        for method in options.methods:
            folders.append(Path(home, method))
            found = kg.evaluate(QUESTIONS, method=method, limit=options.questions, out=folders[-1])
            print(f"{method}: Hits@1 {found.figures['hits_at_1']:.1f}")
        compared = kgqa.compare(*folders)
        difference = compared.figures["hits_at_1"]
        low, high = difference.interval
        print(f"difference: {difference.difference:+.1f}, 95 % interval {low:+.1f} to {high:+.1f}")
        print(f"right by one alone: {compared.right['only_a']} and {compared.right['only_b']}")


if __name__ == "__main__":
    main()
