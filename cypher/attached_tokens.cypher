// The labels, relationship types and property names of a database, and its sizes from Neo4j's own counts.
CALL { CALL db.labels() YIELD label RETURN collect(label) AS labels }
CALL { CALL db.relationshipTypes() YIELD relationshipType RETURN collect(relationshipType) AS types }
CALL { CALL db.propertyKeys() YIELD propertyKey RETURN collect(propertyKey) AS properties }
CALL { MATCH (n) RETURN count(n) AS nodes }
CALL { MATCH ()-[r]->() RETURN count(r) AS relationships }
RETURN labels, types, properties, nodes, relationships
