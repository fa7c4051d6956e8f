// How many edges of one type a knowledge graph has.
// :param type => 'people.person.place_of_birth'
MATCH (:`Freebase`)-[r:$($type)]->()
WHERE r.rel IS NOT NULL
RETURN count(r) AS count
