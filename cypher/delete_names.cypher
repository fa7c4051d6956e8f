// Delete the normalised names of a load, some at a time.
// :param load => 'the load that is dropped'
MATCH (n:KGName {load: $load})
WHERE n.norm >= ''
CALL (n) { DELETE n } IN TRANSACTIONS OF 10000 ROWS
