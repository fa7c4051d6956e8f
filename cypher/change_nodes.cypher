// Change what is known of some nodes; `labels` holds Mediator or Value, or nothing.
// :param rows => [{key: 0, name: 'Jamaica', kind: 0, labels: []}]
UNWIND $rows AS row
MATCH (n:`Freebase` {key: row.key})
SET n.name = row.name, n.aliases = row.aliases, n.kind = row.kind, n.types = row.types,
    n.properties = row.properties
REMOVE n:Mediator:Value
SET n:$(row.labels)
