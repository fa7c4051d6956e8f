// The properties that identify the nodes of a label.
SHOW CONSTRAINTS YIELD type, entityType, labelsOrTypes, properties
WHERE entityType = 'NODE' AND type IN ['UNIQUENESS', 'NODE_PROPERTY_UNIQUENESS', 'NODE_KEY']
  AND size(properties) = 1
RETURN labelsOrTypes[0] AS label, properties[0] AS property
