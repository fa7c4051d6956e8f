"""Types of columns, and values as JSON."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgqa.loaders.tabular_values import (
    MISSING,
    amounts_of,
    as_cells,
    as_json,
    date_form,
    separator,
    value_type,
)

if TYPE_CHECKING:
    from kgqa.graph.schema import ValueType


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-20"], "integer"),
        (["1.5", "2"], "float"),
        (["01581", "90210"], "text"),
        (["yes", "No"], "boolean"),
        (["1996-07-04 00:00:00.000", "1996-07-05"], "date"),
        (["31.12.1999", "01.02.2000"], "date"),
        (["01/02/2000", "03/04/2001"], "text"),  # of which month, nobody knows
        (["1996-07-04 10:00:00", "1996-07-05T11:30:00"], "datetime"),
        (["2020-01-01T10:00:00Z"], "datetime"),
        (["12:30", "9:05:10"], "time"),
        (["P1Y2M", "PT3H"], "duration"),
        (["3 March 2021", "12 Jan 2020"], "date"),
        (["May 2021", "June 2020"], "text"),
        (["13.02.21", "14.02.21"], "text"),  # of which century, nobody knows
        (["(1990)", "(2001)"], "text"),
        (["POINT(1 2)"], "point"),
        (["nan", "1"], "text"),
        (["0x10", "3"], "text"),
        (["123456789012345678901234", "1"], "text"),
    ],
)
def test_a_column_has_the_type_of_all_its_values(cells: list[str], kind: ValueType) -> None:
    assert value_type(pa.array(cells)) == kind


def one(text: str, kind: ValueType) -> object:
    column, lost = as_json(pa.array([text]), kind)
    return None if lost[0] else json.loads(column[0].as_py())


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_stay(number: int) -> None:
    assert one(str(number), "integer") == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_stay(number: float) -> None:
    found = one(repr(number), "float")
    assert isinstance(found, float)
    assert math.isclose(found, number, rel_tol=0, abs_tol=0)


@given(st.dates(date(1, 1, 1)), st.datetimes(datetime(1, 1, 1)))
def test_dates_stay(day: date, moment: datetime) -> None:
    assert one(str(day), "date") == str(day)
    assert datetime.fromisoformat(str(one(str(moment), "datetime"))) == moment


@given(st.text())
@example(".")
@example("-")
def test_what_is_not_of_a_type_is_said(text: str) -> None:
    for kind in ("integer", "float", "boolean", "date", "datetime", "time", "point"):
        column, lost = as_json(pa.array([text]), kind)  # type: ignore[arg-type]
        missing = text.strip().lower() in MISSING  # said to be no value, so none is lost
        assert lost[0] == (column[0].as_py() is None and not missing)


def test_nulls_bytes_and_embeddings() -> None:
    assert as_cells(pa.chunked_array([[" x ", "NULL", "", None]])).to_pylist() == [  # type: ignore[union-attr]
        "x",
        None,
        None,
        None,
    ]
    assert as_cells(pa.chunked_array([[b"\x00\xff"]])) is None
    assert as_cells(pa.chunked_array([[[0.5] * 40]])) is None


def test_na_is_missing_where_it_is_no_code() -> None:
    for texts, known in (
        (["Europe/Oslo", "NA", "Asia/Tokyo"], ["Europe/Oslo", None, "Asia/Tokyo"]),
        (["N14228", "NA"], ["N14228", None]),
        (["US", "NA", "DE"], ["US", "NA", "DE"]),
        (["JFK", "NA"], ["JFK", "NA"]),
    ):
        column = as_cells(pa.chunked_array([texts]))
        assert column is not None
        assert column.to_pylist() == known


def test_lists_in_cells_are_found_and_prose_is_not() -> None:
    assert separator(pa.array(["a; b", "c"])) == ";"
    assert separator(pa.array(["a b", "c"])) == ""
    prose = "It was the best of times; it was the worst of times, and it went on like this for long"
    assert separator(pa.array([prose])) == ""


@pytest.mark.parametrize(
    ("cells", "kind", "unit", "numbers"),
    [
        (["9,5", "10,25", "11"], "float", "", [9.5, 10.25, 11.0]),
        (["1.234,50", "12.000,00", "999,99"], "float", "", [1234.5, 12000.0, 999.99]),
        (["1,250", "980", "12,400"], "integer", "", [1250, 980, 12400]),
        (["12,5 %", "7,0 %"], "float", "%", [12.5, 7.0]),
        (["12 kg", "2.5 kg"], "float", "kg", [12.0, 2.5]),
        (["$157 Billion", "$1.5 million"], "float", "$", [157e9, 1.5e6]),
        (["1 234 567", "12 000"], "integer", "", [1234567, 12000]),
        (["3", "NA", "unknown", "-"], "integer", "", [3, None, None, None]),
        (["n/a", "2.5"], "float", "", [None, 2.5]),
        (["1,200", "(3,450)", ".."], "integer", "", [1200, -3450, None]),
        (["3 March 2021", "1 Dec 2019"], "date", "", ["2021-03-03", "2019-12-01"]),
        (["March 3, 2021", "Dec. 12, 2020"], "date", "", ["2021-03-03", "2020-12-12"]),
        (["03-Mar-2021", "12-DEC-2020"], "date", "", ["2021-03-03", "2020-12-12"]),
        (["2h 35m", "58m", "1 day 2 hours"], "duration", "", ["PT2H35M", "PT58M", "P1DT2H"]),
        (
            ["2024-03-01 10:00:00+02", "2024-03-01 09:30:00-0530"],
            "datetime",
            "",
            ["2024-03-01T10:00:00+02:00", "2024-03-01T09:30:00-05:30"],
        ),
        (
            ["2015/01/01 01:00:00", "2014/12/31 23:30:00"],
            "datetime",
            "",
            ["2015-01-01T01:00:00", "2014-12-31T23:30:00"],
        ),
        (
            ["3/14/2022 9:05 AM", "12/30/2021 11:45 PM"],
            "datetime",
            "",
            ["2022-03-14T09:05:00", "2021-12-30T23:45:00"],
        ),
        (["26:10:05", "0:58:00"], "duration", "", ["PT26H10M05S", "PT0H58M00S"]),
        (["1/2/2015 0:00", "13/1/2015 0:00"], "date", "", ["2015-02-01", "2015-01-13"]),
        (["-0044-03-15", "0014-08-19"], "date", "", ["-0044-03-15", "0014-08-19"]),
    ],
)
def test_amounts_and_missing_values_of_a_column(
    cells: list[str], kind: ValueType, unit: str, numbers: list[object]
) -> None:
    texts = pa.array(cells)
    assert value_type(texts) == kind
    amounts = amounts_of(texts)
    assert (amounts.unit if amounts else "") == unit
    column, lost = as_json(
        texts, kind, "," if amounts and amounts.decimal == "," else "", date_form(texts)
    )
    assert [None if one is None else json.loads(one) for one in column.to_pylist()] == numbers
    assert not lost.any()


@pytest.mark.parametrize(
    "cells",
    [["1E5", "2E7"], ["12 kg", "900 g"], ["1,5", "2.5"], ["€5", "$5"], ["NA", "x"], ["3 B", "4 C"]],
)
def test_codes_and_mixed_units_stay_text(cells: list[str]) -> None:
    assert value_type(pa.array(cells)) == "text"


@given(st.lists(st.integers(-(10**25), 10**25), min_size=1, unique=True))
def test_integers_of_any_size_are_exact(numbers: list[int]) -> None:
    texts = pa.array(list(map(str, numbers)))
    column, lost = as_json(texts, value_type(texts))
    assert [int(json.loads(one)) for one in column.to_pylist()] == numbers
    assert not lost.any()


@given(st.lists(st.text(max_size=8), min_size=1))
def test_each_cell_is_kept_missing_or_counted(cells: list[str]) -> None:
    texts = as_cells(pa.chunked_array([cells])).combine_chunks()  # type: ignore[union-attr]
    kind = value_type(pc.unique(texts).drop_null())
    column, lost = as_json(texts, kind, form=date_form(texts))
    for text, value, is_lost in zip(texts.to_pylist(), column.to_pylist(), lost, strict=True):
        missing = text is None or (kind != "text" and text.lower() in MISSING)
        assert (value is not None) + is_lost + missing == 1
