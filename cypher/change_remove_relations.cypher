// Remove some relations, which have no edge any more.
// :param load => 'the load in the KGMeta record'
// :param keys => [0]
UNWIND $keys AS key
MATCH (r:KGRelation {load: $load, key: key})
DELETE r
