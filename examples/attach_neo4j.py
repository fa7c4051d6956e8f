"""Ask questions about an existing Neo4j database, without changing it.

    python examples/attach_neo4j.py [QUESTION] [--only LABEL]

NEO4J_URI, NEO4J_USERNAME, NEO4J_PASSWORD and NEO4J_DATABASE name the server and the account.
Nothing is written to the database: a survey finds what its nodes are called, and everything else
is read when it is needed.
"""

from __future__ import annotations

import argparse
import tempfile

import kgqa


def main() -> None:
    """Attach the database, show what it holds, and ask."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("question", nargs="?", help="a question about the database")
    parser.add_argument("--only", action="append", help="a label; other nodes are left out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, kgqa.attach(home=home, only=options.only) as kg:
        for type_ in kg.store.schema().types:
            print(
                f"{type_.name}: {type_.count:,} nodes, called by {', '.join(type_.names) or 'id'}"
            )
        if options.question:
            answer = kg.ask(options.question, k=3)
            print(answer)
            print(kg.browser_url(answer))


if __name__ == "__main__":
    main()
