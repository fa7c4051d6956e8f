// Entities whose name or alias is like a text (Lucene's query syntax), best first.
// :param index => 'Freebase text'
// :param query => 'jamaica~'
// :param limit => 5
// :param load => 'the load in the KGMeta record'
// :param version => 'the version in the KGMeta record'
CALL db.index.fulltext.queryNodes($index, $query) YIELD node, score
WHERE node.kind = 0
WITH node, score ORDER BY score DESC, node.key LIMIT $limit
WITH collect(node.key) AS keys
RETURN keys, EXISTS { (:KGMeta {load: $load, version: $version}) } AS serving
