// The edges that touch some nodes, as three columns: the row in $keys, the relation's key doubled
// (one more against its direction), and the other node's key times four plus its kind.
// :param keys => [0, 1, 2]
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
UNWIND range(0, size($keys) - 1) AS row
MATCH (n:`Freebase` {key: $keys[row]})
CALL (n) {
  MATCH (n)-[r]->(m) WHERE r.rel IS NOT NULL
  RETURN 2 * r.rel AS step, 4 * m.key + m.kind AS target
  UNION ALL
  MATCH (n)<-[r]-(m) WHERE r.rel IS NOT NULL
  RETURN 2 * r.rel + 1 AS step, 4 * m.key + m.kind AS target
}
WITH collect(row) AS rows, collect(step) AS steps, collect(target) AS targets
RETURN rows, steps, targets, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
