// Labels and properties of some nodes.
// :param ids => ['m.03_r3']
UNWIND range(0, size($ids) - 1) AS row
MATCH (n:`Freebase`) WHERE n.`id` = $ids[row]
RETURN labels(n) AS labels, properties(n) AS properties
