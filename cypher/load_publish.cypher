// The one step that makes a load visible and the older one of that name rubbish.
// :param load => 'made up for this load'
// :param meta => {name: 'freebase', label: 'Freebase', load: 'made up for this load'}
MATCH (l:KGLoading {load: $load})
MERGE (m:KGMeta {name: l.name})
FOREACH (_ IN CASE WHEN m.load IS NULL THEN [] ELSE [1] END |
  CREATE (:KGDropping {label: m.label, load: m.load}))
SET m = $meta
DELETE l
RETURN m.name AS name
