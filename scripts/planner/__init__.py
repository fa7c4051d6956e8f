"""Training the plan scorer: gold of Cypher, examples, fitting."""
