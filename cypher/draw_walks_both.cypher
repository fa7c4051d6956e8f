// Draw every path of at most two edges that starts at an entity, whatever the edges' direction.
// :param id => 'm.03_r3'
// :param limit => 300
MATCH path = (:`Freebase` {id: $id})-[*1..2]-(end)
WHERE all(n IN nodes(path) WHERE single(m IN nodes(path) WHERE m = n))
RETURN path LIMIT $limit
