// How many edges have both ends under a label and an end without an id.
MATCH (n:`Freebase`)-[r]->(m:`Freebase`)
WHERE n.`id` IS NULL OR n.`id` = '' OR m.`id` IS NULL OR m.`id` = ''
RETURN count(r) AS edges
