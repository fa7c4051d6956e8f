// Before each batch: is this load still the one, and has the batch been written before?
// :param load => 'made up for this load'
// :param batch => 1
MATCH (l:KGLoading {load: $load})
WITH l, l.batch AS done
SET l.batch = $batch
RETURN done
