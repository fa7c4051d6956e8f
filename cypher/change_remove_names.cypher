// Remove some normalised names, which no entity bears any more.
// :param load => 'the load in the KGMeta record'
// :param norms => ['jamaica']
UNWIND $norms AS norm
MATCH (n:KGName {load: $load, norm: norm})
DELETE n
