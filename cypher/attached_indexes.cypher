// The indexes of a database.
SHOW INDEXES YIELD name, type, state, entityType, labelsOrTypes, properties
RETURN name, type, state, entityType, labelsOrTypes AS labels, properties
