// Whether each of some relationships is there, between nodes that are taken: one of the type, and if
// a property of that type says the relation, one that says this or, for an empty one, none of $known.
// :param heads => ['4:00000000-0000-0000-0000-000000000000:0']
// :param tails => ['4:00000000-0000-0000-0000-000000000000:1']
// :param wanted => ['ACTED_IN']
// :param properties => ['']
// :param kinds => ['']
// :param known => [[]]
// :param labels => []
// :param hidden => []
UNWIND range(0, size($heads) - 1) AS row
MATCH (h) WHERE elementId(h) = $heads[row]
  AND (size($labels) = 0 OR any(label IN labels(h) WHERE label IN $labels))
  AND none(label IN labels(h) WHERE label IN $hidden)
MATCH (t) WHERE elementId(t) = $tails[row]
  AND (size($labels) = 0 OR any(label IN labels(t) WHERE label IN $labels))
  AND none(label IN labels(t) WHERE label IN $hidden)
WITH row, h, t WHERE EXISTS {
  (h)-[r]->(t) WHERE type(r) = $wanted[row] AND ($properties[row] = ''
    OR r[$properties[row]] = $kinds[row]
    OR ($kinds[row] = '' AND NOT coalesce(r[$properties[row]], '') IN $known[row]))
}
RETURN collect(row) AS rows
