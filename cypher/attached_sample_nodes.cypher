// The properties of some nodes of a label.
// :param limit => 2000
MATCH (n:`Freebase`)
WITH n LIMIT $limit
RETURN properties(n) AS properties
