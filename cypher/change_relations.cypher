// Add or change some relations.
// :param load => 'the load in the KGMeta record'
// :param rows => [{key: 0, id: 'friend_of', name: 'friend of', inverse: null}]
UNWIND $rows AS row
MERGE (r:KGRelation {load: $load, key: row.key})
SET r.id = row.id, r.name = row.name, r.inverse = row.inverse
