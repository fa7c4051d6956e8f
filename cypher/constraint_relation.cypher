// Relations by their key, for all knowledge graphs.
CREATE CONSTRAINT kgqa_relation IF NOT EXISTS FOR (r:KGRelation) REQUIRE (r.load, r.key) IS UNIQUE
