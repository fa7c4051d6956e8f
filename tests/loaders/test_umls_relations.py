from __future__ import annotations

import json
from collections import Counter
from difflib import SequenceMatcher
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from kgqa.loaders.umls_ids import Cuis, CuiSet, hashes
from kgqa.loaders.umls_relations import Inverses, MirroredRows, RelationRows

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


def mirrored(rows: list[Row], most: int = 1 << 20, at_once: int = 7) -> MirroredRows:
    found = MirroredRows(most)
    for start in range(0, len(rows), at_once):
        heads, relations, tails, sources = (
            texts(list(column)) for column in zip(*rows[start : start + at_once], strict=True)
        )
        found.add(hashes(sources), hashes(tails), hashes(heads), relations)
    return found


def learnt_by_hand(rows: list[Row]) -> dict[str, str]:
    """Return the inverse of each relation that has one, learnt with sets of strings."""
    inverse = {"AQ": "QB", "CHD": "PAR", "RN": "RB"}
    inverse |= {b: a for a, b in inverse.items()}
    inverse |= {name: name for name in ("RO", "RL", "RQ", "RU", "SIB", "SY")}
    facts: dict[tuple[str, str, str], set[str]] = {}
    for head, relation, tail, source in rows:
        facts.setdefault((source, tail, head), set()).add(relation)
    stated: Counter[str] = Counter()
    met: Counter[tuple[str, str]] = Counter()
    for (source, first, second), relations in facts.items():
        if first != second:
            stated.update(relations)
            back = facts.get((source, second, first), ())
            met.update((relation, other) for relation in relations for other in back)
    pairs = [
        (-count, -SequenceMatcher(None, one, other).ratio(), one, other)
        for (one, other), count in met.items()
        if one <= other and 2 * count >= max(stated[one], stated[other])
    ]
    for _, _, one, other in sorted(pairs):
        if one not in inverse and other not in inverse:
            inverse[one], inverse[other] = other, one
    return inverse


@given(ROWS, st.integers(1, 8))
def test_inverses_are_those_that_rows_show(rows: list[Row], at_once: int) -> None:
    inverses = Inverses()
    inverses.learn_from_rows(mirrored(rows, at_once=at_once))
    expected = learnt_by_hand(rows)
    assert {name: inverses.of(name) for name in NAMES} == {
        name: expected.get(name) for name in NAMES
    }


@given(ROWS, st.sampled_from([[], [("may_treat", "may_be_treated_by")], [("isa", "isa")]]))
def test_each_fact_is_one_edge_with_all_its_sources(
    rows: list[Row], documented: list[tuple[str, str]]
) -> None:
    inverses = Inverses()
    inverses.learn_documented(documented)
    inverses.learn_from_rows(mirrored(rows))
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


@given(st.permutations(range(60)), st.integers(4, 40), st.integers(1, 60))
def test_many_rows_are_learnt_from_in_bounded_memory_and_in_any_order(
    order: list[int], most: int, at_once: int
) -> None:
    pairs = [(f"A{number:08d}", f"A{number + 1:07d}") for number in range(30)]
    rows: list[Row] = [(one, "part_of", other, "FMA") for one, other in pairs]
    rows += [(other, "has_part", one, "FMA") for one, other in pairs]
    few = mirrored([rows[place] for place in order], most, at_once)
    assert few.counts() == mirrored(rows, most).counts()
    stated, met = few.counts()
    assert stated.total() <= most
    # Both rows of a fact are kept, or neither.
    assert stated["part_of"] == stated["has_part"] == met["part_of", "has_part"]


def test_the_canonical_name_does_not_depend_on_which_is_asked() -> None:
    inverses = Inverses()
    inverses.learn_documented([("part_of", "has_part"), ("isa", "inverse_isa"), ("near", "near")])
    for one, other in [("part_of", "has_part"), ("isa", "inverse_isa"), ("CHD", "PAR")]:
        assert inverses.canonical(one) == (one, False)
        assert inverses.canonical(other) == (one, True)
    for name in ("near", "SIB"):
        assert inverses.of(name) == name
    assert inverses.canonical("unheard_of") == ("unheard_of", False)


def test_two_relations_between_the_same_ends_find_their_own_inverses() -> None:
    inverses = Inverses()
    rows: list[Row] = [
        ("A2", relation, "A1", "FMA") for relation in ("part_of", "regional_part_of")
    ]
    rows += [("A1", relation, "A2", "FMA") for relation in ("has_part", "has_regional_part")]
    inverses.learn_from_rows(mirrored(rows))
    assert inverses.of("part_of") == "has_part"
    assert inverses.of("regional_part_of") == "has_regional_part"


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


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), unique=True))
@example(["", "\x01"])  # a length that equals the letter
@example(["A1234567", "H12345678"])
def test_hashes_tell_ids_apart_wherever_they_stand(ids: list[str]) -> None:
    column = pa.concat_arrays([texts(["cut off"]), texts(ids)]).slice(1)
    found = hashes(column).tolist()
    assert len(set(found)) == len(ids)
    assert found == [int(hashes(texts([id_]))[0]) for id_ in ids]
