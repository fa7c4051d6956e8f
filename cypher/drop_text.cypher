// Drop the full-text index; done first, so that deleting nodes need not update it.
DROP INDEX `Freebase text` IF EXISTS
