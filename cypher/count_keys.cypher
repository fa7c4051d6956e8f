// How far the keys of a knowledge graph's nodes go: one more than the greatest, 0 without a node.
MATCH (n:`Freebase`)
RETURN coalesce(max(n.key) + 1, 0) AS count
