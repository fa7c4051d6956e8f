// A load that was stopped, or is overtaken: mark what it wrote as rubbish. It cannot write on.
// :param kg => 'freebase'
MATCH (l:KGLoading {name: $kg})
CREATE (:KGDropping {label: l.label, load: l.load})
DELETE l
