// Relationships by element id: type, kind, ends and properties.
// :param ids => ['5:00000000-0000-0000-0000-000000000000:0']
// :param labels => []
// :param hidden => []
// :param types => []
// :param untaken => []
// :param kinds => {LINK: 'type'}
UNWIND range(0, size($ids) - 1) AS row
MATCH (h)-[r]->(t) WHERE elementId(r) = $ids[row]
  AND (size($labels) = 0 OR any(label IN labels(h) WHERE label IN $labels))
  AND none(label IN labels(h) WHERE label IN $hidden)
  AND (size($labels) = 0 OR any(label IN labels(t) WHERE label IN $labels))
  AND none(label IN labels(t) WHERE label IN $hidden)
  AND (size($types) = 0 OR type(r) IN $types) AND NOT type(r) IN $untaken
RETURN row, type(r) AS type, r[$kinds[type(r)]] AS kind, toInteger(split(elementId(h), ':')[2]) AS head,
       toInteger(split(elementId(t), ':')[2]) AS tail, properties(r) AS properties
