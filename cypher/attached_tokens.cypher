// The labels and relationship types of a database, and its sizes from Neo4j's own counts.
CALL { CALL db.labels() YIELD label RETURN collect(label) AS labels }
CALL { CALL db.relationshipTypes() YIELD relationshipType RETURN collect(relationshipType) AS types }
CALL { MATCH (n) RETURN count(n) AS nodes }
CALL { MATCH ()-[r]->() RETURN count(r) AS relationships }
RETURN labels, types, nodes, relationships
