// Draw given relationships: element ids of head and tail, the type, and what a property of it says
// where that is the relation.
// :param edges => [['4:…:0', 'ACTED_IN', '4:…:1', '', '']]
UNWIND $edges AS edge
MATCH path = (h)-[r]->(t)
WHERE elementId(h) = edge[0] AND elementId(t) = edge[2] AND type(r) = edge[1]
  AND (edge[4] = '' OR r[edge[3]] = edge[4])
RETURN path
