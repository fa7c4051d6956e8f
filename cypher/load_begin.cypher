// Begin a load. `batch` counts the batches written, so that none is written twice.
// :param kg => 'freebase'
// :param label => 'Freebase'
// :param load => 'made up for this load'
CREATE (:KGLoading {name: $kg, label: $label, load: $load, batch: 0, started: datetime()})
