// Delete the relations of a load, some at a time.
// :param load => 'the load that is dropped'
MATCH (r:KGRelation {load: $load})
WHERE r.key >= 0
CALL (r) { DELETE r } IN TRANSACTIONS OF 10000 ROWS
