"""Ask questions about an existing Neo4j database, without changing it.

    python examples/attach_neo4j.py LABEL [ID_PROPERTY [NAME_PROPERTY]] [--ask QUESTION]

NEO4J_URI, NEO4J_USERNAME, NEO4J_PASSWORD and NEO4J_DATABASE name the server and the account.
LABEL is the label of the nodes that are entities. Their properties are ``id`` and ``name`` unless
you name others. Nothing is written to the database: ids and names are read once, edges when they
are needed.
"""

from __future__ import annotations

import argparse
import tempfile

import kgqa


def main() -> None:
    """Attach the database, show what it holds, and ask."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("label")
    parser.add_argument("id_property", nargs="?", default="id")
    parser.add_argument("name_property", nargs="?", default="name")
    parser.add_argument("--ask", metavar="QUESTION", help="a question about the database")
    options = parser.parse_args()
    attachment = {
        "label": options.label,
        "id_property": options.id_property,
        "name_property": options.name_property,
    }
    with (
        tempfile.TemporaryDirectory() as home,
        kgqa.attach("attached", home=home, **attachment) as kg,
    ):
        print(f"{kg.info.entities:,} entities, {kg.info.edges:,} edges")
        if options.ask:
            answer = kg.ask(options.ask, k=3)
            print(answer)
            print(kg.browser_url(answer))


if __name__ == "__main__":
    main()
