// How many nodes of a label have which properties.
// :param limit => 1000000
MATCH (n:`Freebase`)
WITH n LIMIT $limit
RETURN keys(n) AS names, count(*) AS count
