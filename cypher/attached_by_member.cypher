// Nodes of a label by a member of a property that is a list.
// :param values => ['Neo']
// :param labels => []
// :param hidden => []
// :param limit => 1000
MATCH (n:`Freebase`)
WHERE any(value IN $values WHERE value IN n.`id`)
  AND (size($labels) = 0 OR any(label IN labels(n) WHERE label IN $labels))
  AND none(label IN labels(n) WHERE label IN $hidden)
RETURN toInteger(split(elementId(n), ':')[2]) AS key, n.`id` AS value
LIMIT $limit
