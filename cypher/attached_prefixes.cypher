// What the element ids of nodes and of relationships begin with.
OPTIONAL MATCH (n) WITH n LIMIT 1
OPTIONAL MATCH (m)-[r]->() WITH n, r LIMIT 1
RETURN elementId(n) AS node, elementId(r) AS relationship
