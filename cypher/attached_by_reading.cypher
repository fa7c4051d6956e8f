// Nodes of a label by what a property says, of numbers kept as text, and of dates and times.
// :param values => [1997, '1996-07-04']
// :param labels => []
// :param hidden => []
// :param limit => 1000
MATCH (n:`Freebase`)
WHERE (n.`id` IN $values OR toFloatOrNull(n.`id`) IN $values OR toStringOrNull(n.`id`) IN $values)
  AND (size($labels) = 0 OR any(label IN labels(n) WHERE label IN $labels))
  AND none(label IN labels(n) WHERE label IN $hidden)
RETURN toInteger(split(elementId(n), ':')[2]) AS key, n.`id` AS value
LIMIT $limit
