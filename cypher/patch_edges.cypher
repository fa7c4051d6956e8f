// Properties of edges that import files could not hold.
// :param rows => [{head: 0, tail: 1, rel: 0, properties: {}}]
UNWIND $rows AS row
MATCH (:`Freebase` {key: row.head})-[r {rel: row.rel}]->(:`Freebase` {key: row.tail})
SET r += row.properties
