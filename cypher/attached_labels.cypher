// The labels of a database.
CALL db.labels() YIELD label
RETURN collect(label) AS labels
