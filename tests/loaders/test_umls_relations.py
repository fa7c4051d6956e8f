from __future__ import annotations

import json
from collections import Counter
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kgqa.loaders.umls_relations import Cuis, CuiSet, Inverses, RelationRows

Row: TypeAlias = tuple[str, str, str, str]  # head, relation, tail, source
NAMES = ["may_treat", "may_be_treated_by", "part_of", "has_part", "RO", "CHD", "PAR", "isa", "x"]
IDS = ["C0000001", "C0000002", "C9999999", "CL000001", "C1"]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(IDS),
        st.sampled_from(NAMES),
        st.sampled_from(IDS),
        st.sampled_from(["NCI", "MSH", "FMA"]),
    ),
    max_size=30,
)


def texts(values: list[str]) -> pa.Array:
    return pa.array(values, type=pa.string())


@given(ROWS, st.sampled_from([[], [("may_treat", "may_be_treated_by")], [("isa", "isa")]]))
def test_each_fact_is_one_edge_with_all_its_sources(
    rows: list[Row], documented: list[tuple[str, str]]
) -> None:
    inverses = Inverses()
    inverses.learn_documented(documented)
    cuis = Cuis()
    kept = RelationRows(cuis)
    for row in rows:
        head, relation, tail, source = (texts([value]) for value in row)
        kept.add(cuis.encode(head), relation, cuis.encode(tail), source)
    used: set[str] = set()
    dropped: Counter[str] = Counter()
    edges = [row for batch in kept.edges(inverses, used, dropped) for row in batch.rows.to_pylist()]
    expected: dict[tuple[str, str, str], set[str]] = {}
    again: Counter[str] = Counter()
    for head, relation, tail, source in rows:
        inverse = inverses.of(relation)
        fact = (head, relation, tail)
        if inverse == relation:
            fact = min(fact, (tail, relation, head))
        elif inverse is not None and inverses.canonical(relation)[0] == inverse:
            fact = (tail, inverse, head)
        if fact in expected:
            turned = fact != (head, relation, tail)
            again["inverse of a loaded row" if turned else "same relation again"] += 1
        expected.setdefault(fact, set()).add(source)
    assert {
        (edge["head"], edge["relation"], edge["tail"]): json.loads(edge["properties"])
        for edge in edges
    } == {fact: {"sources": sorted(sources)} for fact, sources in expected.items()}
    assert len(edges) == len(expected)
    assert dropped == again
    assert used == {relation for _, relation, _ in expected}


def test_the_canonical_name_does_not_depend_on_which_is_asked() -> None:
    inverses = Inverses()
    inverses.learn_documented([("part_of", "has_part"), ("isa", "inverse_isa"), ("near", "near")])
    for one, other in [("part_of", "has_part"), ("isa", "inverse_isa"), ("CHD", "PAR")]:
        assert inverses.canonical(one) == (one, False)
        assert inverses.canonical(other) == (one, True)
    for name in ("near", "SIB"):
        assert inverses.of(name) == name
    assert inverses.canonical("unheard_of") == ("unheard_of", False)


@given(
    st.lists(
        st.one_of(
            st.sampled_from(IDS),
            st.from_regex(r"C[0-9]{7}", fullmatch=True),
            st.text(st.characters(codec="utf-8")),
        )
    )
)
def test_concept_ids_are_numbers_and_come_back(ids: list[str]) -> None:
    cuis = Cuis()
    column = pa.concat_arrays([texts(["cut off"]), texts(ids)]).slice(1)
    codes = cuis.encode(column)
    assert cuis.decode(codes).to_pylist() == ids
    assert len(set(codes.tolist())) == len(set(ids))
    both = [(one, other) for one in range(len(ids)) for other in range(len(ids))]
    ones, others = (np.array([pair[end] for pair in both], dtype=np.int64) for end in (0, 1))
    later = cuis.later(codes[ones], codes[others]).tolist()
    assert later == [ids[one] > ids[other] for one, other in both]
    kept = CuiSet()
    assert not kept
    firsts = kept.new(codes).tolist()
    assert firsts == [id_ not in ids[:place] for place, id_ in enumerate(ids)]
    assert kept.has(codes).all()
    assert bool(kept) == bool(ids)
    strange = cuis.encode(texts(["strange", "C7654321"]))
    assert kept.has(strange).tolist() == ["strange" in ids, "C7654321" in ids]
