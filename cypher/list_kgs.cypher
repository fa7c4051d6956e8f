// The knowledge graphs that can be asked; what is still being loaded has no such record.
MATCH (m:KGMeta)
RETURN properties(m) AS meta
ORDER BY m.name
