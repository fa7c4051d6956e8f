// How many relationship types the database has that are not among some relations.
// :param relations => ['people.person.place_of_birth']
CALL db.relationshipTypes() YIELD relationshipType
WHERE NOT relationshipType IN $relations
RETURN count(*) AS count
