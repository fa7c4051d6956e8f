// The record of one knowledge graph.
// :param kg => 'freebase'
MATCH (m:KGMeta {name: $kg})
RETURN properties(m) AS meta
