// Draw given relationships: element ids of head and tail, and the type.
// :param edges => [['4:…:0', 'ACTED_IN', '4:…:1']]
UNWIND $edges AS edge
MATCH path = (h)-[r]->(t)
WHERE elementId(h) = edge[0] AND elementId(t) = edge[2] AND type(r) = edge[1]
RETURN path
