"""Mids as numbers: nothing is lost, and numbers are in the order of the ids."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgqa.graph.mids import LONGEST, NO_MID, decode_mids, encode_mids

_ALPHABET = "0123456789_abcdefghijklmnopqrstuvwxyz"
MIDS = st.builds(
    "{}.{}".format,
    st.sampled_from("gm"),
    st.text(_ALPHABET, min_size=1, max_size=LONGEST),
)


@given(st.lists(MIDS))
@example(["m.zzzzzzzzzzz", "g.zzzzzzzzzzz", "m.0", "g.0", "m.00000000000", "m.z"])
def test_a_number_gives_its_mid_back(mids: list[str]) -> None:
    codes = encode_mids(pa.array(mids, type=pa.string()))
    assert codes.dtype == np.int64
    assert (codes >= 0).all()
    assert decode_mids(codes).to_pylist() == mids
    assert decode_mids(codes).type == pa.string()


@given(st.lists(MIDS, min_size=2))
@example(["m.0", "m.00", "m.0_", "m.0a", "m.09", "g.z", "m._"])
def test_numbers_are_in_the_order_of_the_ids(mids: list[str]) -> None:
    codes = encode_mids(pa.array(mids, type=pa.string())).tolist()
    assert [mid for _, mid in sorted(zip(codes, mids, strict=True))] == sorted(mids)
    assert len(set(codes)) == len(set(mids))


@given(st.lists(st.none() | MIDS | st.text(max_size=14) | st.text("gm.0aA_ ", max_size=14)))
@example(
    ["m.", "m", "", "g.0A", "m.000000000000", "n.0", "m:0", "m.ü", "M.0", "m.0 ", " m.0", "m..0"]
)
def test_what_is_no_mid_has_no_number(values: list[str | None]) -> None:
    codes = encode_mids(pa.array(values, type=pa.string()))
    for value, code in zip(values, codes.tolist(), strict=True):
        good = (
            value is not None
            and value[:2] in ("g.", "m.")
            and 1 <= len(value) - 2 <= LONGEST
            and set(value[2:]) <= set(_ALPHABET)
        )
        assert (code != NO_MID) == good


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
def test_every_kind_of_text_column_and_a_slice_of_it(kind: pa.DataType) -> None:
    texts = ["m.0first", "<m.01>\t", None, "<g.02>\t", "<nothing>\t", "<m.03>\t", "m.0last"]
    column = pa.array(texts, type=pa.string()).cast(kind)
    codes = encode_mids(column.slice(1, 5), before=1, after=2)
    assert codes[[1, 3]].tolist() == [NO_MID, NO_MID]
    assert decode_mids(codes[[0, 2, 4]]).to_pylist() == ["m.01", "g.02", "m.03"]


def test_no_mids_at_all() -> None:
    assert encode_mids(pa.array([], type=pa.string())).tolist() == []
    assert encode_mids(pa.array(["", None], type=pa.string())).tolist() == [NO_MID, NO_MID]
    assert decode_mids(np.empty(0, dtype=np.int64)).to_pylist() == []
