// Labels that a load must not use: those of other knowledge graphs, of loads and of what is dropped.
MATCH (m:KGMeta|KGLoading|KGDropping)
RETURN collect(m.label) AS labels
