// Whether each of some edges is there. A row is missing if one of its ends is missing or not
// unique.
// :param heads => ['m.03_r3']
// :param tails => ['m.0160w']
// :param types => ['location.country.languages_spoken']
UNWIND range(0, size($heads) - 1) AS row
MATCH (h:`Freebase`) WHERE h.`id` = $heads[row]
WITH row, collect(h) AS found WHERE size(found) = 1
WITH row, found[0] AS head
MATCH (t:`Freebase`) WHERE t.`id` = $tails[row]
WITH row, head, collect(t) AS found WHERE size(found) = 1
WITH row, head, found[0] AS tail
RETURN collect(row) AS rows,
       collect(EXISTS { (head)-[r]->(tail) WHERE type(r) = $types[row] }) AS there
