"""Ask questions about a UMLS release, and show the concept ids behind the answers.

    python examples/medicine.py [META]

META is the META folder of a release that you have a licence for. Without it, the bundled rows of
the NCI Thesaurus are loaded, which are in the public domain. An answer repeats what the release
says; it is not medical advice.
"""

from __future__ import annotations

import sys
import tempfile

import kgqa

QUESTIONS = [
    "Which gene products are encoded by a cytokine gene?",
    "What are the physical parts of a chromosome?",
]


def main(*sources: str) -> None:
    """Load the release, and print answers with the ids of the concepts on their paths."""
    with tempfile.TemporaryDirectory() as home, kgqa.ingest("umls", *sources, home=home) as kg:
        print(f"{kg.info.entities:,} concepts, {kg.info.edges:,} relations")
        for question in QUESTIONS:
            answer = kg.ask(question, k=3)
            print(question)
            if answer.best is None:
                print("  ", *answer.notes)
                continue
            print("  ", answer.best.name, answer.best.id)
            for path in answer.paths_of(answer.best)[:1]:
                for edge in path.edges:
                    print(f"      {edge.head.id} {edge.relation} {edge.tail.id} ({edge.tail.name})")


if __name__ == "__main__":
    main(*sys.argv[1:])
