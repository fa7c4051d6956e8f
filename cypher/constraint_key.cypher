// A key (the rank of the id) names one node of a knowledge graph.
CREATE CONSTRAINT `Freebase key` IF NOT EXISTS FOR (n:`Freebase`) REQUIRE n.key IS UNIQUE
