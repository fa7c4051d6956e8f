// Drop the constraint on ids, after the nodes are gone.
DROP CONSTRAINT `Freebase id` IF EXISTS
