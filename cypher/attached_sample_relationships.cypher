// The properties of some relationships of a type, and the labels at their ends.
// :param limit => 1000
MATCH (h)-[r:`Freebase`]->(t)
WITH h, r, t LIMIT $limit
RETURN labels(h) AS heads, labels(t) AS tails, properties(r) AS properties
