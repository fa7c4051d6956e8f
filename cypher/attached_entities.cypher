// Labels and naming properties of some nodes, those that are taken.
// :param ids => ['4:00000000-0000-0000-0000-000000000000:0']
// :param labels => []
// :param hidden => []
// :param names => ['name']
UNWIND range(0, size($ids) - 1) AS row
MATCH (n) WHERE elementId(n) = $ids[row]
  AND (size($labels) = 0 OR any(label IN labels(n) WHERE label IN $labels))
  AND none(label IN labels(n) WHERE label IN $hidden)
RETURN collect(row) AS rows, collect(labels(n)) AS labels,
       collect([name IN $names | n[name]]) AS named
