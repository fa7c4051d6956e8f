// Nodes whose text is like a query (Lucene's syntax), best first.
// :param index => 'Freebase text'
// :param query => 'jamaica~'
// :param limit => 5
CALL db.index.fulltext.queryNodes($index, $query) YIELD node, score
WITH node, score ORDER BY score DESC, elementId(node) LIMIT $limit
RETURN collect(toInteger(split(elementId(node), ':')[2])) AS keys
