// All that is known of one entity besides its edges.
// :param key => 0
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
OPTIONAL MATCH (n:`Freebase` {key: $key})
WITH collect(properties(n)) AS found
RETURN found, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
