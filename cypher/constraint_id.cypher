// An id names one node of a knowledge graph.
CREATE CONSTRAINT `Freebase id` IF NOT EXISTS FOR (n:`Freebase`) REQUIRE n.id IS UNIQUE
