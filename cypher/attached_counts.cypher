// How many nodes have a label, and how many edges leave and enter them (from Neo4j's own counts).
CALL { MATCH (n:`Freebase`) RETURN count(n) AS nodes }
CALL { MATCH (:`Freebase`)-[r]->() RETURN count(r) AS leaving }
CALL { MATCH (:`Freebase`)<-[r]-() RETURN count(r) AS entering }
RETURN nodes, leaving, entering
