// Every node of a label, with what a survey of names takes.
// :param id => 'id'
// :param name => 'name'
// :param alias => 'aliases'
// :param mediator => 'Mediator'
// :param value => 'Value'
MATCH (n:`Freebase`)
RETURN elementId(n) AS ref, n[$id] AS id, n[$name] AS name, n[$alias] AS aliases,
       coalesce($mediator IN labels(n), false) AS mediator,
       coalesce($value IN labels(n), false) AS value
