// The properties of some edges, as lists of rows and of texts.
// :param heads => [0]
// :param relations => [0]
// :param tails => [1]
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
UNWIND range(0, size($heads) - 1) AS row
MATCH (h:`Freebase` {key: $heads[row]})
MATCH (t:`Freebase` {key: $tails[row]})
MATCH (h)-[r {rel: $relations[row]}]->(t) WHERE r.properties IS NOT NULL
WITH collect(row) AS rows, collect(r.properties) AS texts
RETURN rows, texts, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
