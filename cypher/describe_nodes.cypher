// Give some nodes their types as labels and their properties as properties, and take others away.
// :param rows => [{key: 0, labels: ['Country'], gone: [], properties: {capital: 'Kingston'}}]
UNWIND $rows AS row
MATCH (n:`Freebase` {key: row.key})
REMOVE n:$(row.gone)
SET n:$(row.labels)
SET n += row.properties
