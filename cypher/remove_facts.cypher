// Remove the relationships of some facts, whose mediators are still there.
// :param rows => [{key: 0, type: 'ACTED_IN'}]
UNWIND $rows AS row
MATCH (f:`Freebase` {key: row.key})
MATCH (h)-[:$(row.type)]->(f)
MATCH (h)-[r:$(row.type) {fact: row.key}]->()
DELETE r
