// The keys of the entities of a type; an empty one is every entity.
// :param type => 'Country'
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
MATCH (n:`Freebase`)
WHERE $type IN n.types OR ($type = '' AND n.kind = 0)
WITH n.key AS key ORDER BY key
WITH collect(key) AS keys
RETURN keys, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
