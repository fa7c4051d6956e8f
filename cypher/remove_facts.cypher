// Remove the relationships of some facts, whose mediators are still there.
// :param rows => [{key: 0, type: 'ACTED_IN', half: 'ACTED_IN (fact)'}]
UNWIND $rows AS row
MATCH (f:`Freebase` {key: row.key})
MATCH (h)-[:$(row.half)]->(f)
MATCH (h)-[r:$(row.type) {fact: row.key}]->()
DELETE r
