"""Training the plan scorer and the KG-LLM that writes plans: gold of Cypher, examples, fitting."""
