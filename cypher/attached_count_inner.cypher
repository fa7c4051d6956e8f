// How many edges have both ends under a label.
MATCH (:`Freebase`)-[r]->(:`Freebase`)
RETURN count(r) AS edges
