// A batch of nodes; `labels` holds Mediator or Value, or nothing.
// :param rows => [{id: 'm.03_r3', key: 0, name: 'Jamaica', kind: 0, labels: []}]
UNWIND $rows AS row
CREATE (n:Entity:`Freebase`:$(row.labels) {
  id: row.id, key: row.key, name: row.name, aliases: row.aliases,
  kind: row.kind, types: row.types, properties: row.properties
})
