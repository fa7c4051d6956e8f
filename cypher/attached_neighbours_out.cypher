// The edges that leave some nodes, by type: the row in $ids, the type and the ids at the other end.
// Every existing node has a row, maybe with no type; a missing or repeated id has none.
// :param ids => ['m.03_r3']
UNWIND range(0, size($ids) - 1) AS row
MATCH (n:`Freebase`) WHERE n.`id` = $ids[row]
WITH row, collect(n) AS found WHERE size(found) = 1
WITH row, found[0] AS n
OPTIONAL MATCH (n)-[r]->(m:`Freebase`)
WITH row, type(r) AS type, collect(DISTINCT m.`id`) AS others
RETURN collect(row) AS rows, collect(coalesce(type, '')) AS types, collect(others) AS others
