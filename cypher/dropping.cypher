// What is to be deleted: replaced knowledge graphs and loads that were stopped.
MATCH (d:KGDropping)
RETURN d.label AS label, d.load AS load
