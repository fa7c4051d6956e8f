// Given properties of some nodes that are taken.
// :param ids => ['4:00000000-0000-0000-0000-000000000000:0']
// :param names => ['released']
// :param labels => []
// :param hidden => []
UNWIND range(0, size($ids) - 1) AS row
MATCH (n) WHERE elementId(n) = $ids[row]
  AND (size($labels) = 0 OR any(label IN labels(n) WHERE label IN $labels))
  AND none(label IN labels(n) WHERE label IN $hidden)
RETURN row, labels(n) AS labels, [name IN $names | n[name]] AS values
