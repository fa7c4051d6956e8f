// Whether any node of a label has a property.
// :param property => 'id'
MATCH (n:`Freebase`)
WHERE n[$property] IS NOT NULL
RETURN true AS there
LIMIT 1
