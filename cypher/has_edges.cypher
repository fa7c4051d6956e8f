// Which of some edges are there: their row numbers.
// :param heads => [0, 1]
// :param relations => [0, 0]
// :param tails => [1, 2]
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
UNWIND range(0, size($heads) - 1) AS row
MATCH (h:`Freebase` {key: $heads[row]})
MATCH (t:`Freebase` {key: $tails[row]})
WHERE EXISTS { (h)-[{rel: $relations[row]}]->(t) }
WITH collect(row) AS rows
RETURN rows, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
