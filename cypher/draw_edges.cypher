// Draw given edges: head id, relation, tail id, in stored direction.
// :param edges => [['m.03_r3', 'location.country.languages_spoken', 'm.01428y']]
UNWIND $edges AS edge
MATCH path = (:`Freebase` {id: edge[0]})-[r]->(:`Freebase` {id: edge[2]})
WHERE type(r) IN [edge[1], edge[1] + ' (fact)'] AND r.rel IS NOT NULL
RETURN path
