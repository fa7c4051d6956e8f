// Wait until every index serves.
// :param seconds => 300
CALL db.awaitIndexes($seconds)
