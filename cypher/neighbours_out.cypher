// The edges that leave some nodes, as three columns: the row in $keys, the relation's key doubled
// (one more against its direction), and the other node's key times four plus its kind.
// :param keys => [0, 1, 2]
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
UNWIND range(0, size($keys) - 1) AS row
MATCH (:`Freebase` {key: $keys[row]})-[r]->(m) WHERE r.rel IS NOT NULL
WITH collect(row) AS rows, collect(2 * r.rel) AS steps, collect(4 * m.key + m.kind) AS targets
RETURN rows, steps, targets, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
