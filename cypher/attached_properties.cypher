// The properties of the first nodes of a label.
MATCH (n:`Freebase`)
WITH n LIMIT 1000
UNWIND keys(n) AS property
WITH DISTINCT property ORDER BY property
RETURN collect(property) AS properties
