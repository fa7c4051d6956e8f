// The database that answers.
CALL db.info() YIELD name
RETURN name
