// Delete a knowledge graph's nodes, some at a time; their edges are gone by then, or are few.
MATCH (n:`Freebase`)
CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 5000 ROWS
