// Names as they are compared (normalised): found exactly, for all knowledge graphs.
CREATE CONSTRAINT kgqa_name IF NOT EXISTS FOR (n:KGName) REQUIRE (n.load, n.norm) IS UNIQUE
