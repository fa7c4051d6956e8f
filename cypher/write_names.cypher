// A batch of normalised names with the keys of the entities that bear them.
// :param load => 'made up for this load'
// :param rows => [{norm: 'jamaica', keys: [0]}]
UNWIND $rows AS row
CREATE (:KGName {load: $load, norm: row.norm, keys: row.keys})
