// The labels that nodes of a label have.
// :param limit => 1000000
MATCH (n:`Freebase`)
WITH n LIMIT $limit
UNWIND labels(n) AS label
RETURN DISTINCT label
