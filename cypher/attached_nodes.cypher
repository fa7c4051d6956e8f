// Nodes that are taken, with what a survey of names reads, some hundreds in a row.
// :param labels => []
// :param hidden => []
// :param names => ['name']
// :param limit => 200000
MATCH (n)
WHERE (size($labels) = 0 OR any(label IN labels(n) WHERE label IN $labels))
  AND none(label IN labels(n) WHERE label IN $hidden)
WITH n LIMIT $limit
WITH toInteger(split(elementId(n), ':')[2]) AS key, n
RETURN key / 1000 AS part, collect(key) AS keys, collect(labels(n)) AS labels,
       collect([name IN $names | n[name]]) AS named, collect(COUNT { (n)--() }) AS degrees
