// Remove some nodes, whose edges are gone by then.
// :param keys => [0]
UNWIND $keys AS key
MATCH (n:`Freebase` {key: key})
DELETE n
