// Take the constraint on keys away, after the nodes are gone.
DROP CONSTRAINT `Freebase key` IF EXISTS
