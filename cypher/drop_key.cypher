// Drop the constraint on keys, after the nodes are gone.
DROP CONSTRAINT `Freebase key` IF EXISTS
