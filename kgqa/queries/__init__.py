"""Questions about a whole graph, as values: plans, what they mean on a store, and as Cypher."""
