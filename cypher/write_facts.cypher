// Make the relationships of facts that have properties, which lie beside the mediators that walks
// pass: `fact` is the mediator's key. Walks pass over these relationships, which have no `rel`.
// :param rows => [{key: 0, type: 'ACTED_IN', half: 'ACTED_IN (fact)', properties: {roles: ['Neo']}}]
UNWIND $rows AS row
MATCH (f:`Freebase` {key: row.key})
MATCH (h)-[:$(row.half)]->(f)-[:$(row.half)]->(t)
CREATE (h)-[r:$(row.type) {fact: row.key}]->(t)
SET r += row.properties
