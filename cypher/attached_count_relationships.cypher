// How many relationships have a type (from Neo4j's own counts).
MATCH ()-[r:`Freebase`]->() RETURN count(r) AS count
