// Give some edges other properties.
// :param heads => [0]
// :param tails => [1]
// :param relations => [0]
// :param properties => [null]
// :param natives => [{}]
UNWIND range(0, size($heads) - 1) AS row
MATCH (h:`Freebase` {key: $heads[row]})
MATCH (t:`Freebase` {key: $tails[row]})
MATCH (h)-[r {rel: $relations[row]}]->(t)
SET r = $natives[row]
SET r.rel = $relations[row], r.properties = $properties[row]
