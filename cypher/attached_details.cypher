// Labels and properties of a node.
// :param ids => ['4:00000000-0000-0000-0000-000000000000:0']
UNWIND range(0, size($ids) - 1) AS row
MATCH (n) WHERE elementId(n) = $ids[row]
RETURN labels(n) AS labels, properties(n) AS properties
