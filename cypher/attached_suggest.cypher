// Nodes of a label whose text is like a query (Lucene's syntax), best first.
// :param index => 'Freebase text'
// :param query => 'jamaica~'
// :param limit => 5
CALL db.index.fulltext.queryNodes($index, $query) YIELD node, score
WHERE node:`Freebase` AND node.`id` IS NOT NULL AND node.`id` <> ''
WITH node, score ORDER BY score DESC, elementId(node) LIMIT $limit
RETURN collect(node.`id`) AS ids
