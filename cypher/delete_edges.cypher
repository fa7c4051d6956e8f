// Delete edges that leave some of a knowledge graph's nodes, as many as one transaction should.
// :param first => 0
// :param after => 5000
// :param most => 20000
MATCH (n:`Freebase`) WHERE n.key >= $first AND n.key < $after
MATCH (n)-[r]->()
WITH r LIMIT $most
DELETE r
RETURN count(*) AS count
