// Draw given edges: head id, type, tail id, in stored direction.
// :param edges => [['m.03_r3', 'location.country.languages_spoken', 'm.01428y']]
UNWIND $edges AS edge
MATCH path = (h:`Freebase`)-[r]->(t:`Freebase`)
WHERE h.`id` = edge[0] AND t.`id` = edge[2] AND type(r) = edge[1]
RETURN path
