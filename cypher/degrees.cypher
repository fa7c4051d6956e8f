// How many edges touch each of some nodes; a self loop counts once.
// :param keys => [0, 1, 2]
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
UNWIND range(0, size($keys) - 1) AS row
MATCH (n:`Freebase` {key: $keys[row]})
WITH row, COUNT { (n)-[r]->() WHERE r.rel IS NOT NULL } +
  COUNT { (m)-[r]->(n) WHERE r.rel IS NOT NULL AND m <> n } AS degree
WITH collect(row) AS rows, collect(degree) AS degrees
RETURN rows, degrees, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
