// How many edges a knowledge graph has (answered from the counts that Neo4j keeps).
MATCH (:`Freebase`)-[r]->()
RETURN count(r) AS count
