// All of it is deleted: forget it.
// :param load => 'the load that is dropped'
MATCH (d:KGDropping {load: $load})
DELETE d
