// The keys of some ids. An id that is not there has no row number in `rows`.
// :param ids => ['m.03_r3', 'm.0160w']
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
UNWIND range(0, size($ids) - 1) AS row
MATCH (n:`Freebase` {id: $ids[row]})
WITH collect(row) AS rows, collect(n.key) AS keys
RETURN rows, keys, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
