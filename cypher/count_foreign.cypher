// How many nodes of the database are not kgqa's (answered from the counts that Neo4j keeps).
RETURN COUNT { MATCH (n) } - COUNT { MATCH (n:Entity) } - COUNT { MATCH (n:KGMeta) }
  - COUNT { MATCH (n:KGName) } - COUNT { MATCH (n:KGRelation) } - COUNT { MATCH (n:KGLoading) }
  - COUNT { MATCH (n:KGDropping) } AS count
