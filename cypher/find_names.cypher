// Entities by exact normalised name or alias: a list of keys for each row in `rows`.
// :param names => ['jamaica', 'bob marley']
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
UNWIND range(0, size($names) - 1) AS row
MATCH (n:KGName {load: $load, norm: $names[row]})
WITH collect(row) AS rows, collect(n.keys) AS keys
RETURN rows, keys, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
