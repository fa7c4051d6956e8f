"""Your own graph, from a file of triples (services.tsv) to answers with their paths.

    python examples/own_graph.py [questions…]

This does in Python what ``kgqa ingest triples`` and ``kgqa ask`` do. Everything is written to a
folder that is deleted at the end; leave out ``home`` to keep the graph in your data folder.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import kgqa

TRIPLES = Path(__file__).with_name("services.tsv")
QUESTIONS = [
    "who gets paged when checkout-api goes down",
    "Which team owns the price-feed?",
    "who leads the team that owns ledger-db?",
    "How tall is Cleo Marsh?",  # the graph does not say
]


def main(questions: list[str]) -> None:
    """Load the triples, and ask."""
    with (
        tempfile.TemporaryDirectory() as folder,
        kgqa.ingest("triples", TRIPLES, home=folder) as kg,
        kg.qa(k=3) as qa,
    ):
        for answer in qa.batch(questions):
            print(answer.question)
            if answer.best is None:
                print("  ", *answer.notes)
                continue
            path = answer.paths_of(answer.best)[0].text
            print(f"   {answer.best.name} ({answer.confidence:.0%}): {path}")


if __name__ == "__main__":
    main(sys.argv[1:] or QUESTIONS)
