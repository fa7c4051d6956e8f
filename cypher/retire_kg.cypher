// Take a knowledge graph out of service; its nodes are deleted afterwards.
// :param kg => 'freebase'
MATCH (m:KGMeta {name: $kg})
CREATE (:KGDropping {label: m.label, load: m.load})
DELETE m
