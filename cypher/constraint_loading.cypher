// One load of a knowledge graph at a time.
CREATE CONSTRAINT kgqa_loading IF NOT EXISTS FOR (l:KGLoading) REQUIRE l.name IS UNIQUE
