// How many nodes have a label (from Neo4j's own counts).
MATCH (n:`Freebase`) RETURN count(n) AS count
