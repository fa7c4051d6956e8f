// Remove some edges; `relations` are the relations' keys.
// :param heads => [0]
// :param tails => [1]
// :param relations => [0]
UNWIND range(0, size($heads) - 1) AS row
MATCH (h:`Freebase` {key: $heads[row]})
MATCH (t:`Freebase` {key: $tails[row]})
MATCH (h)-[r {rel: $relations[row]}]->(t)
DELETE r
