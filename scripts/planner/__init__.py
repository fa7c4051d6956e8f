"""Training the plan scorer: the gold of Cypher, examples, fitting."""
