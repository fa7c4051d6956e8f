// Two loads never write under one label.
CREATE CONSTRAINT kgqa_loading_label IF NOT EXISTS FOR (l:KGLoading) REQUIRE l.label IS UNIQUE
