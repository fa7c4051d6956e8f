// A change begins: the record of the knowledge graph becomes the new one, if it is the old one yet.
// Writing to it makes every other change wait until this one is done.
// :param load => 'the load in the KGMeta record'
// :param version => 'the version before the change'
// :param meta => {name: 'freebase', label: 'Freebase', load: 'the same load'}
MATCH (m:KGMeta {load: $load})
SET m.changing = true
REMOVE m.changing
WITH m WHERE m.version = $version
SET m = $meta
RETURN m.name AS name
