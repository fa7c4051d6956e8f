// Delete a knowledge graph's nodes and edges, some at a time.
MATCH (n:`Freebase`)
CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 5000 ROWS
