// How many different values a property of a label has.
MATCH (n:`Freebase`)
RETURN count(DISTINCT n.`id`) AS count
