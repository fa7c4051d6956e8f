#!/usr/bin/env bash
# ladybug 0.22.0 (the successor of Kuzu): Cypher that Neo4j runs too gives other rows, silently.
#
# The statements below are valid in openCypher and accepted by both, so a query that was tried in
# Neo4j Browser seems to be portable. It is not: a pattern may use one relationship twice (a walk;
# openCypher: once in a MATCH), so "who else worked on it" returns the person who was asked about;
# a list with null in it decides `IN`, so `NOT x IN [1, null]` keeps what openCypher drops; lists
# and `substring` count from 1, slices hold their end; `log` is to base 10; a null equals the null
# of a simple CASE; a timestamp drops its offset, so the same instant written in two zones differs.
# No statement fails. Whoever compares the two databases, or moves a query, must compare rows.
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check ladybug==0.22.0
"$temp/venv/bin/python" - "$temp" <<'PYTHON'
import sys
from datetime import datetime
from pathlib import Path

import ladybug

connection = ladybug.Connection(ladybug.Database(str(Path(sys.argv[1]) / "graph")))


def rows(statement):
    result = connection.execute(statement)
    read = []
    while result.has_next():
        read.append(result.get_next())
    return read


rows("CREATE NODE TABLE Person(name STRING PRIMARY KEY)")
rows("CREATE NODE TABLE Film(name STRING PRIMARY KEY)")
rows("CREATE REL TABLE worked_on(FROM Person TO Film)")
rows("CREATE (:Film {name: 'Low Tide'})")
for name in ("Ann", "Bo"):
    rows(f"CREATE (:Person {{name: '{name}'}})")
    rows(f"MATCH (p:Person {{name: '{name}'}}), (f:Film) CREATE (p)-[:worked_on]->(f)")

midnight = datetime(2020, 1, 1)
others = (
    "MATCH (:Person {name: 'Ann'})-[:worked_on]->(:Film)<-[:worked_on]-(other:Person) "
    "RETURN other.name ORDER BY other.name"
)
statements = (  # statement, the rows that openCypher and Neo4j give, the rows of ladybug
    (others, [["Bo"]], [["Ann"], ["Bo"]]),
    ("UNWIND [1, 2, 3] AS x WITH x WHERE NOT x IN [1, NULL] RETURN x", [], [[2], [3]]),
    ("RETURN [10, 20, 30][1]", [[20]], [[10]]),
    ("RETURN [10, 20, 30][1..2]", [[[20]]], [[[10, 20]]]),
    ("RETURN substring('hello', 1, 2)", [["el"]], [["he"]]),
    ("RETURN log(100)", [[4.605170185988092]], [[2.0]]),
    ("RETURN CASE NULL WHEN NULL THEN 1 ELSE 2 END", [[2]], [[1]]),
    ("RETURN none(x IN [NULL] WHERE x = 1)", [[None]], [[True]]),
)
for statement, neo4j, here in statements:
    got = rows(statement)
    print(f"{statement}\n  openCypher {neo4j}, here {got}")
    assert got == here != neo4j, statement
east, west = (rows(f"RETURN timestamp('2020-01-01T00:00:00{zone}')") for zone in ("+02:00", "-05:00"))
print(f"midnight at +02:00 and at -05:00: {east}, {west}")
assert east == west == [[midnight]]
PYTHON
echo "ladybug 0.22.0: eight statements of Cypher give other rows than openCypher"
