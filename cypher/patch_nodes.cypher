// Lists that import files could not hold.
// :param rows => [{key: 0, aliases: ['a'], types: null}]
UNWIND $rows AS row
MATCH (n:`Freebase` {key: row.key})
SET n.aliases = coalesce(row.aliases, n.aliases), n.types = coalesce(row.types, n.types)
