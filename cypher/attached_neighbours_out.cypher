// The relationships that leave some nodes: type, kind, number, other end, whether that is a mediator or a
// value by its label, and the properties of types that have some. Those and the nodes' labels
// and properties are given once for each row of $ids that is taken.
// :param ids => ['4:00000000-0000-0000-0000-000000000000:0']
// :param labels => []
// :param hidden => []
// :param types => []
// :param untaken => []
// :param reified => []
// :param kinds => {LINK: 'type'}
// :param walking => true
// :param unwalked => []
// :param mediator => {label: '', property: '', pattern: ''}
// :param value => ''
UNWIND range(0, size($ids) - 1) AS row
MATCH (n) WHERE elementId(n) = $ids[row]
  AND (size($labels) = 0 OR any(label IN labels(n) WHERE label IN $labels))
  AND none(label IN labels(n) WHERE label IN $hidden)
RETURN row, labels(n) AS labels,
  [name IN keys(n) WHERE $walking AND NOT name IN $unwalked | [name, n[name]]] AS properties,
  [(n)-[r]->(m)
    WHERE (size($labels) = 0 OR any(label IN labels(m) WHERE label IN $labels))
  AND none(label IN labels(m) WHERE label IN $hidden)
      AND (size($types) = 0 OR type(r) IN $types) AND NOT type(r) IN $untaken
    | [type(r), r[$kinds[type(r)]], toInteger(split(elementId(r), ':')[2]), toInteger(split(elementId(m), ':')[2]),
       CASE WHEN $value IN labels(m) THEN 2
            WHEN $mediator.label IN labels(m)
              OR coalesce(m[$mediator.property] =~ $mediator.pattern, false) THEN 1
            ELSE 0 END,
       CASE WHEN type(r) IN $reified THEN properties(r) END]] AS edges
