// The nodes of a label that are taken.
// :param labels => []
// :param hidden => []
MATCH (n:`Freebase`)
WHERE (size($labels) = 0 OR any(label IN labels(n) WHERE label IN $labels))
  AND none(label IN labels(n) WHERE label IN $hidden)
RETURN toInteger(split(elementId(n), ':')[2]) AS key
