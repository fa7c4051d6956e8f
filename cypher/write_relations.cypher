// A batch of relations.
// :param load => 'made up for this load'
// :param rows => [{key: 0, id: 'people.person.place_of_birth', name: 'people.person.place_of_birth', inverse: null}]
UNWIND $rows AS row
CREATE (:KGRelation {
  load: $load, key: row.key, id: row.id, name: row.name, inverse: row.inverse
})
