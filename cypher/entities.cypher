// Ids, names and kinds (0 entity, 1 mediator, 2 value) of some keys.
// :param keys => [0, 1, 2]
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
UNWIND $keys AS key
MATCH (n:`Freebase` {key: key})
WITH collect(n) AS found
RETURN [n IN found | n.key] AS keys, [n IN found | n.id] AS ids, [n IN found | n.name] AS names,
       [n IN found | n.kind] AS kinds, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
