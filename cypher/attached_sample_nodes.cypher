// The labels and properties of some nodes of a label.
// :param limit => 2000
MATCH (n:`Freebase`)
WITH n LIMIT $limit
RETURN labels(n) AS labels, properties(n) AS properties
