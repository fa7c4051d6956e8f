// One record for each knowledge graph that can be asked.
CREATE CONSTRAINT kgqa_meta IF NOT EXISTS FOR (m:KGMeta) REQUIRE m.name IS UNIQUE
