// All that is known of some nodes besides their edges.
// :param keys => [0, 1, 2]
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
UNWIND $keys AS key
MATCH (n:`Freebase` {key: key})
WITH collect(n {.id, .key, .name, .aliases, .kind, .types, .properties}) AS found
RETURN found, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
