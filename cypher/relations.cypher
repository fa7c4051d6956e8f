// All relations, by key.
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
MATCH (r:KGRelation {load: $load})
WHERE r.key >= 0
WITH r ORDER BY r.key
WITH collect(r) AS found
RETURN [r IN found | r.key] AS keys, [r IN found | r.id] AS ids, [r IN found | r.name] AS names,
       [r IN found | r.inverse] AS inverses,
       EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
