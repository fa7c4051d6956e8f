// How many relationships of a type lead from nodes of which labels to nodes of which, with which
// properties, for each value of the property that says the relation.
// :param limit => 1000000
MATCH (h)-[r:`Freebase`]->(t)
WITH h, r, t LIMIT $limit
RETURN labels(h) AS heads, labels(t) AS tails, keys(r) AS names, r.`id` AS kind, count(*) AS count
