// The keys of the entities that bear some normalised names.
// :param load => 'the load in the KGMeta record'
// :param norms => ['jamaica']
UNWIND $norms AS norm
MATCH (n:KGName {load: $load, norm: norm})
RETURN n.norm AS norm, n.keys AS keys
