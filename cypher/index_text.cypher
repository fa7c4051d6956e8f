// Full text over names and aliases; it only suggests.
CREATE FULLTEXT INDEX `Freebase text` IF NOT EXISTS
FOR (n:`Freebase`) ON EACH [n.name, n.aliases]
