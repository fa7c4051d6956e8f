// Nodes of a label by the values of a property.
// :param values => ['m.03_r3']
// :param labels => []
// :param hidden => []
// :param limit => 1000
MATCH (n:`Freebase`)
WHERE n.`id` IN $values
  AND (size($labels) = 0 OR any(label IN labels(n) WHERE label IN $labels))
  AND none(label IN labels(n) WHERE label IN $hidden)
RETURN toInteger(split(elementId(n), ':')[2]) AS key, n.`id` AS value
LIMIT $limit
