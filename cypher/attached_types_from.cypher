// The types of the relationships that lead from nodes of a label.
MATCH (:`Freebase`)-[r]->()
RETURN DISTINCT type(r) AS type
