// Take the full-text index away; done first, so that deleting nodes need not keep it up.
DROP INDEX `Freebase text` IF EXISTS
