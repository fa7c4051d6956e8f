// How many nodes a knowledge graph has (answered from the counts that Neo4j keeps).
MATCH (n:`Freebase`)
RETURN count(n) AS count
