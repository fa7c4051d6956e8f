// Take the constraint on ids away, after the nodes are gone.
DROP CONSTRAINT `Freebase id` IF EXISTS
