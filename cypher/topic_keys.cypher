// Named entities that have an edge, by key: the next ones after a key.
// :param after => -1
// :param limit => 100
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
MATCH (n:`Freebase`)
WHERE n.key > $after AND n.kind = 0 AND n.name IS NOT NULL AND EXISTS { (n)--() }
WITH n.key AS key ORDER BY key LIMIT $limit
WITH collect(key) AS keys
RETURN keys, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
