// A batch of edges. The relationship's type is the predicate; `rel` is the relation's key.
// :param heads => [0]
// :param tails => [1]
// :param relations => [0]
// :param types => ['location.country.languages_spoken']
// :param properties => [null]
// :param natives => [{}]
UNWIND range(0, size($heads) - 1) AS row
MATCH (h:`Freebase` {key: $heads[row]})
MATCH (t:`Freebase` {key: $tails[row]})
CREATE (h)-[r:$($types[row]) {rel: $relations[row], properties: $properties[row]}]->(t)
SET r += $natives[row]
