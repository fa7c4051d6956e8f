#!/usr/bin/env bash
# neo4j-graphrag 1.22.0: extract_cypher makes labels of OR and AND, and changes texts in quotes.
#
# Text2CypherRetriever, and GraphCypherQAChain of langchain-neo4j 0.11.0, pass what a model wrote
# through `extract_cypher`. Its docstring says that names of several words get backticks. It is
# three regular expressions, which know no operators and no strings: after "(n:" every run of words
# is a label, so (n:Person OR n:Robot) becomes (n:`Person OR n`:Robot), a valid test for two labels
# that no node has; and a run of words between a comma and a colon is a key, inside quotes, too.
# What Neo4j 5.26.28 then answers is no error but other rows: nothing in place of three names, all
# nodes for NOT (…), five for a count of two, and no book for an exact title. A right query of the
# model is counted as wrong in an evaluation, and a denial becomes a list of everything. Whoever has
# valid Cypher must run it past these classes, or compare what was sent (the metadata's "cypher").
# With NEO4J_URI, NEO4J_USERNAME and NEO4J_PASSWORD of an empty database, the rows are shown as well
# (in a transaction that is rolled back).
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check \
  neo4j-graphrag==1.22.0 langchain-neo4j==0.11.0
"$temp/venv/bin/python" - <<'PYTHON'
import os

import neo4j
from langchain_neo4j.chains.graph_qa import cypher
from neo4j_graphrag.retrievers.text2cypher import extract_cypher

GRAPH = """CREATE (:Person {name: 'Ann', born: 1960}), (:Person {name: 'Bo', born: 1980}),
(:Robot {name: 'R2'}), (:City {name: 'Rome'}),
(:Book {name: 'Guns', title: 'Guns, Germs, and Steel: The Fates of Human Societies'})"""
statements = (  # statement, what is sent, rows of both in Neo4j 5.26.28
    (
        "MATCH (n) WHERE (n:Person OR n:Robot) RETURN n.name",
        "MATCH (n) WHERE (n:`Person OR n`:Robot) RETURN n.name",
        (["Ann", "Bo", "R2"], []),
    ),
    (
        "MATCH (n) WHERE NOT (n:Person OR n:Robot) RETURN n.name",
        "MATCH (n) WHERE NOT (n:`Person OR n`:Robot) RETURN n.name",
        (["Guns", "Rome"], ["Ann", "Bo", "Guns", "R2", "Rome"]),
    ),
    (
        "MATCH (n) RETURN count(n:Person OR null)",
        "MATCH (n) RETURN count(n:`Person OR null`)",
        ([2], [5]),
    ),
    (
        "MATCH (p:Person WHERE true) RETURN p.name",
        "MATCH (p:`Person WHERE true`) RETURN p.name",
        (["Ann", "Bo"], []),
    ),
    (
        "MATCH (b) WHERE b.title = 'Guns, Germs, and Steel: The Fates of Human Societies' RETURN b.name",
        "MATCH (b) WHERE b.title = 'Guns, Germs, `and Steel`: The Fates of Human Societies' RETURN b.name",
        (["Guns"], []),
    ),
)
assert cypher.extract_cypher is extract_cypher
for written, sent, _ in statements:
    print(f"written: {written}\n   sent: {extract_cypher(written)}")
    assert extract_cypher(written) == extract_cypher(f"```cypher\n{written}```") == sent

if uri := os.environ.get("NEO4J_URI"):
    login = os.environ["NEO4J_USERNAME"], os.environ["NEO4J_PASSWORD"]
    with (
        neo4j.GraphDatabase.driver(uri, auth=login, notifications_min_severity="OFF") as driver,
        driver.session() as session,
        session.begin_transaction() as transaction,
    ):
        transaction.run(GRAPH).consume()
        for written, sent, (right, wrong) in statements:
            rows = [sorted(transaction.run(text).value()) for text in (written, sent)]
            print(f"{written}\n  as written {rows[0]}, as sent {rows[1]}")
            assert rows == [right, wrong], rows
        transaction.rollback()
PYTHON
echo "neo4j-graphrag 1.22.0: five valid statements are sent to Neo4j with another meaning"
