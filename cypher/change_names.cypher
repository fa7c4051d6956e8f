// Set the keys of the entities that bear some normalised names.
// :param load => 'the load in the KGMeta record'
// :param rows => [{norm: 'jamaica', keys: [0]}]
UNWIND $rows AS row
MERGE (n:KGName {load: $load, norm: row.norm})
SET n.keys = row.keys
