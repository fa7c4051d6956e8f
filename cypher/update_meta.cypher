// The same content was loaded again: only its record changes.
// :param load => 'the load in the KGMeta record'
// :param meta => {name: 'freebase', label: 'Freebase', load: 'the same load'}
MATCH (m:KGMeta {load: $load})
SET m = $meta
RETURN m.name AS name
