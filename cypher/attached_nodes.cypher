// Nodes that are taken, with what a survey of names reads.
// :param labels => []
// :param hidden => []
// :param names => ['name']
// :param limit => 200000
MATCH (n)
WHERE (size($labels) = 0 OR any(label IN labels(n) WHERE label IN $labels))
  AND none(label IN labels(n) WHERE label IN $hidden)
WITH n LIMIT $limit
RETURN toInteger(split(elementId(n), ':')[2]) AS key, labels(n) AS labels,
       [name IN $names | n[name]] AS named, COUNT { (n)--() } AS degree
