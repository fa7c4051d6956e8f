// The indexes of a database that can be used.
SHOW INDEXES YIELD name, type, state, entityType, labelsOrTypes, properties
WHERE state = 'ONLINE' AND entityType = 'NODE' AND type IN ['RANGE', 'FULLTEXT']
RETURN name, type, labelsOrTypes AS labels, properties
