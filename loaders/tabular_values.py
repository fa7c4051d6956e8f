"""Cells of a table: what is missing, of what type a column is, lists in a cell, values as JSON.

Arrow decides what a number or a date is. What it would take for a number and people do not (postal
codes, telephone numbers: digits after a leading zero) stays text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.amounts import MISSING, read_amounts
from kgqa.loaders.strings import json_strings

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.graph.amounts import Amounts, Mark
    from kgqa.graph.model import BoolArray
    from kgqa.graph.schema import ValueType

    Cells: TypeAlias = pa.Array | pa.ChunkedArray

NULLS = ("", "NULL", "null", "\\N", "None", "NaN", "nan", "N/A", "n/a", "#N/A", "<NA>")
_NA = "NA"  # as R writes what is missing; the code of Namibia among other codes
_LIKE_NA = "^([A-MO-Z][A-Z]|N[B-Z]|[A-Z]{3})$"
TRUE, FALSE = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")
SEPARATORS = (";", "|")
LONG = 200  # characters; a text as long is read, not pointed at
_LISTS = 0.05  # share of cells with a separator from which a column holds lists
_PIECE = 40  # characters that a member of a list has at most, on the mean
_LONGEST = 32  # numbers; a longer list of them is an embedding
_MILLIS = pa.timestamp("us")
_NUMBER_LIKE = r"^[+-]?0[0-9]|[A-DF-Za-df-z_]"  # a code, or a word that Arrow reads as a number
_DAY_BEFORE = r"^-?\d{4,6}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$"
_DATE = r"^\d{4}-\d{2}-\d{2}([ T]00:00(:00(\.0+)?)?)?$"
_TIME = r"^([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?$"
_CLOCKED = r"^(\d+):([0-5]\d):([0-5]\d(\.\d+)?)$"
_DURATION = r"^-?P(\d+[YMWD])*(T(\d+(\.\d+)?[HMS])+)?$"
_HOURS = (
    r"^(?:\d+ ?(?:d|days?))?,? ?(?:\d+ ?(?:h|hrs?|hours?))?,? ?(?:\d+ ?(?:m|mins?|minutes?))?,? ?"
    r"(?:\d+ ?(?:s|secs?|seconds?))?$"
)
_POINT = r"^(?i:POINT)( Z)? ?\([-0-9. ]+\)$"
_CONTROL = r"[\x00-\x08\x0E-\x1F]"
_BLOB = r"^(0x|\\x)[0-9A-Fa-f]{64,}$"
_OTHER_DATES = (
    *("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y%m%d"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d %Y", "%b %d, %Y"),
)
_CLOCKS = ("%H:%M:%S", "%H:%M", "%I:%M:%S %p", "%I:%M %p")
_CLOCK = r",?[ T](\d{1,2}:\d{2}(:\d{2})?( [AaPp][Mm])?)$"
_YEAR = r"^\d{4}\s*/|[\s,./-]\d{4}$|^[12]\d{7}$"
_SHORT_YEAR = r"^\d{1,2}[/-]\d{1,2}[/-]\d{2}$|^\d\d\.\d\d\.\d\d$|^\d{1,2}[ -]\p{L}{3}[ -]\d{2}$"
_DAY_MONTH = r"^(\d{1,2}[ -]\p{L}+\.?[ -]|\p{L}+\.? \d{1,2},? )\d{4}$"


def as_cells(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return a column as trimmed strings, or as lists of them; None if it has no such form.

    That is a column of bytes, embeddings or nested values. A cell that states a missing value
    (``NULLS``, or ``NA`` where it is not a code) is null.
    """
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        stored = column.cast(kind.storage_type)
        column = _uuid_texts(stored) if kind.extension_name == "arrow.uuid" else stored
        kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if _is_list(kind):
        member = kind.value_type
        long = pc.max(pc.list_value_length(column)).as_py() or 0
        if pa.types.is_nested(member) or (long > _LONGEST and not pa.types.is_string(member)):
            return None
        return _string_lists(column)
    if _is_bytes(kind):
        return _decoded_text(column)
    if pa.types.is_null(kind) or pa.types.is_nested(kind) or kind == pa.month_day_nano_interval():
        return None
    texts = pc.utf8_trim_whitespace(_as_strings(column))
    missing = pc.is_in(texts, value_set=pa.array(NULLS))
    if pc.any(pc.equal(texts, _NA)).as_py() and not _any(pc.unique(texts), _LIKE_NA):
        missing = pc.or_(missing, pc.equal(texts, _NA))
    return pc.if_else(missing, pa.scalar(None, pa.string()), texts)


def count_infinite(column: pa.ChunkedArray) -> int:
    """Count the infinite numbers of a column, which :func:`as_cells` turns into nulls."""
    while _is_list(column.type):
        column = pc.list_flatten(column)
    if not pa.types.is_floating(column.type):
        return 0
    return pc.sum(pc.is_inf(column.cast(pa.float64()))).as_py() or 0


def why_left_out(column: pa.ChunkedArray) -> str:
    """Return what a column that :func:`as_cells` rejects holds, as a phrase."""
    kind = column.type
    if pa.types.is_null(kind):
        return "no value"
    if _is_bytes(kind) or isinstance(kind, pa.BaseExtensionType):
        return "bytes"
    long = _is_list(kind) and not pa.types.is_nested(kind.value_type)
    return "long lists of numbers" if long else "nested values"


def _is_bytes(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is binary."""
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in (*tests, pa.types.is_binary_view))


def _is_list(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a list."""
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _as_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert values to strings in the forms in which people write them."""
    kind = column.type
    if pa.types.is_floating(kind):
        column = column.cast(pa.float32()) if pa.types.is_float16(kind) else column
        column = pc.if_else(pc.is_finite(column), column, None)
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
        if kind.tz not in (None, "UTC"):
            return _zoned_times(column, kind.tz)
    elif pa.types.is_time64(kind):
        column = column.cast(pa.time64("us"), safe=False)
    elif pa.types.is_duration(kind):
        seconds = pc.divide(column.cast(pa.duration("us"), safe=False).cast(pa.int64()), 1e6)
        texts = pc.binary_join_element_wise("PT", seconds.cast(pa.string()), "S", "")
        return pc.replace_substring_regex(texts, r"^PT-", "-PT")
    return column.cast(pa.string())


def _zoned_times(column: pa.ChunkedArray, zone: str) -> pa.ChunkedArray:
    """Format times in a zone by its local clock with the offset; in UTC if the zone is unknown."""
    try:
        texts = pc.strftime(column, format="%Y-%m-%dT%H:%M:%S%z")
    except pa.ArrowInvalid:
        return column.cast(pa.timestamp("us", "UTC")).cast(pa.string())
    return pc.replace_substring_regex(texts, r"([+-]\d\d)(\d\d)$", r"\1:\2")


def _string_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column of lists to lists of strings."""
    whole = column.cast(pa.list_(column.type.value_type))
    chunks = [
        pa.ListArray.from_arrays(
            chunk.offsets,
            _as_strings(pa.chunked_array([chunk.values])).combine_chunks(),
            mask=chunk.is_null(),
        )
        if not chunk.offset
        else pa.array(chunk.to_pylist(), chunk.type).cast(pa.list_(pa.string()))
        for chunk in whole.chunks
    ]
    return pa.chunked_array(chunks, pa.list_(pa.string()))


def _decoded_text(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Decode bytes that are UTF-8 text; None if they are not."""
    try:
        texts = column.cast(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return None
    if (
        not texts.null_count < len(texts)
        or pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py()
    ):
        return None
    return as_cells(texts)


def _uuid_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Format 16-byte values as UUIDs."""
    texts = [None if value is None else str(UUID(bytes=value)) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def is_blob(texts: pa.Array) -> bool:
    """Return whether strings are hexadecimal dumps of bytes, such as pictures."""
    return len(texts) > 0 and pc.all(pc.match_substring_regex(texts, _BLOB)).as_py()


def separator(texts: pa.Array) -> str:
    """Return the separator of lists in a column's distinct cells, "" if they are not lists."""
    texts = pc.replace_substring_regex(texts, r"&#?\w+;", "&")  # "21 &amp; Over" is not a list
    for mark in SEPARATORS:
        held = texts.filter(pc.match_substring(texts, mark))
        if len(held) >= max(1, _LISTS * len(texts)):
            pieces = pc.list_flatten(pc.split_pattern(held, mark))
            if pc.mean(pc.utf8_length(pieces)).as_py() <= _PIECE:
                return mark
    return ""


def members(column: Cells, mark: str) -> tuple[pa.Array, pa.Array]:
    """Return (row, text) of every value of a column; missing values are skipped.

    ``mark``: the separator of values in a cell, "" for none; lists are expanded.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    lists = column
    if not pa.types.is_list(column.type):
        if not mark:
            rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            return pa.array(rows), column.drop_null()
        lists = pc.split_pattern(column, mark)
    rows, texts = pc.list_parent_indices(lists), pc.utf8_trim_whitespace(pc.list_flatten(lists))
    good = pc.fill_null(pc.invert(pc.is_in(texts, value_set=pa.array(NULLS))), False)
    good = pc.and_(good, texts.is_valid())
    return rows.filter(good), texts.filter(good)


def value_type(texts: pa.Array) -> ValueType:
    """Return the common type of a column's distinct values (none null).

    Words such as ``NA`` and ``unknown`` are missing values, except in a column of text.
    """
    known = texts.filter(pc.invert(_is_missing(texts)))
    kind = _type_of(known)
    return kind if kind != "text" or len(known) == len(texts) else _type_of(texts)


def _type_of(texts: pa.Array) -> ValueType:
    """Return the common type of distinct texts without missing values."""
    if not len(texts):
        return "text"
    first = texts[0].as_py()
    if _is_plain(texts):
        if all_match(texts, r"^[+-]?[0-9]+$"):  # beyond 64 bits no store holds them exactly
            return "integer" if _all_castable(pc.utf8_ltrim(texts, "+"), pa.int64()) else "text"
        if _all_castable(texts, pa.float64()):
            return "float"
    elif _may_be_amount(first) and (amounts := amounts_of(texts)):
        plain = pa.array(amounts.numbers, pa.string())
        if _is_plain(plain):
            return "integer" if _all_castable(plain, pa.int64()) else "float"
    if len(texts) == 2 and set(pc.utf8_lower(texts).to_pylist()) in (
        set(pair) for pair in zip(TRUE[:4], FALSE[:4], strict=True)
    ):
        return "boolean"
    if set(pc.utf8_lower(texts).to_pylist() if len(texts) < 3 else ()) in ({"true"}, {"false"}):
        return "boolean"
    if first[:1].isdigit() or first[:1] in "-P+" or first[-4:].isdigit() or ":" in first:
        if all_match(texts, _DAY_BEFORE) and _any(texts, "^-"):
            return "date"
        if _is_iso_date(texts):
            return "date" if all_match(texts, _DATE) else "datetime"
        if form := date_form(texts):
            midnight = ":" not in form or all_match(texts, r"\D0?0:00(:00)?$")
            return "date" if midnight else "datetime"
        if all_match(texts, _TIME):
            return "time"
        if all_match(texts, _CLOCKED):  # 26:10:05, beyond a day
            return "duration"
        if all_match(texts, _DURATION) and not pc.any(pc.equal(texts, "P")).as_py():
            return "duration"
        if all_match(texts, _HOURS) and _any(texts, r"[a-z],? ?\d"):  # 1h 30m; 30m alone are metres
            return "duration"
    return "point" if all_match(texts, _POINT) else "text"


def _is_missing(texts: pa.Array) -> pa.Array:
    """Return which texts state a missing value."""
    return pc.is_in(pc.utf8_lower(texts), value_set=pa.array(MISSING))


def _is_plain(texts: pa.Array) -> bool:
    """Return whether texts may be numbers in a program's notation, and not codes such as 1E5."""
    if _any(texts, _NUMBER_LIKE) or not all_match(texts, r"^[-+.0-9Ee]+$"):
        return False
    return not _any(texts, r"^[0-9]+[Ee][0-9]+$") or _any(texts, r"\.|[Ee][-+]")


def _may_be_amount(text: str) -> bool:
    """Return whether a text has a digit and is short enough to be an amount."""
    return any(map(str.isdigit, text)) and len(text) <= _PIECE


def amounts_of(texts: pa.Array) -> Amounts | None:
    """Parse a column's values as amounts; None if they are plain numbers or other text."""
    texts = texts.filter(pc.invert(_is_missing(texts)))
    if not len(texts) or _is_plain(texts) or all_match(texts, r"\(.*\)$"):
        return None  # losses stand in parentheses, beside what is gained
    return read_amounts(texts.to_pylist())


def date_form(texts: pa.Array) -> str:
    """Return the only non-ISO format in which all texts are dates or date-times.

    It is in the notation of :func:`time.strptime`; "" if there is none, or more than one.
    """
    known = texts.filter(pc.invert(_is_missing(texts))).drop_null()
    forms = [] if _is_iso_date(known) else _date_forms(known)
    return forms[0] if len(forms) == 1 else ""


def why_no_date(texts: pa.Array) -> str:
    """Return why texts that look like dates are not read as such, "" if they do not."""
    known = texts.filter(pc.invert(_is_missing(texts))).drop_null()
    first = known.slice(0, 1)
    if not (_has_short_years(first) or _date_forms(first)):
        return ""  # so not all do
    shown = f'("{known[0].as_py()}")'
    if _has_short_years(known):
        return f"has years of two digits {shown}, whose century is not guessed"
    forms = _date_forms(known)
    tried = " or ".join(f'"{form}"' for form in forms)
    return f"has dates {shown} that may be of the form {tried}" if len(forms) > 1 else ""


def _has_short_years(texts: pa.Array) -> bool:
    """Return whether all texts are dates with years of two digits."""
    bare = pc.replace_substring_regex(texts, _CLOCK, "")
    return len(texts) > 0 and all_match(bare, _SHORT_YEAR)


def _date_forms(texts: pa.Array) -> list[str]:
    """Return all non-ISO formats in which every text is a date or date-time."""
    days, clocks = texts, [""]
    if len(texts) and all_match(texts, _CLOCK):
        days = pc.replace_substring_regex(texts, _CLOCK, "")
        mark = pc.replace_substring_regex(texts.slice(0, 1), r"^.*?(,?[ T])\d+:.*$", r"\1")
        clocks = [f"{mark[0]}{clock}" for clock in _CLOCKS]
    if not len(texts) or not all_match(days, _YEAR):
        return []  # the year 21 names a year, not a century
    forms = [form for form in _OTHER_DATES if _days(days, form).null_count == 0]
    whole = [form + clock for form in forms for clock in clocks]
    return [form for form in whole if _days(texts, form).null_count == 0]


def _days(texts: pa.Array, form: str) -> pa.Array:
    """Parse texts as dates in the format ``form``, null for others; months may be abbreviated."""
    if form.endswith("%Y") and "%b" in form:
        fits = pc.match_substring_regex(texts, _DAY_MONTH)  # else May 2021 is the year 21
        texts = pc.if_else(fits, texts, pa.scalar(None, pa.string()))
    if "%b" in form:
        texts = pc.replace_substring_regex(texts, r"(\p{L}{3})\p{L}*\.?", r"\1")
    return pc.strptime(texts, format=form, unit="s", error_is_null=True)


def as_json(
    texts: pa.Array, kind: ValueType, decimal: Mark = "", form: str = ""
) -> tuple[pa.Array, BoolArray]:
    """Convert strings to JSON of the type ``kind`` (null if missing); also return the misfits.

    Dates, times and durations are ISO 8601. The second value says which strings are not of the
    type. ``decimal``: the decimal mark of amounts; ``form``: the format of non-ISO dates (see
    :func:`date_form`).
    """
    encoded = texts.dictionary_encode()
    values = encoded.dictionary
    if kind != "text":
        values = pc.if_else(_is_missing(values), pa.scalar(None, pa.string()), values)
    if kind in ("integer", "float"):
        written = _json_numbers(values, kind, decimal)
    else:
        written = _WRITE.get(kind, json_strings)(values)
    if form:
        shown = "%Y-%m-%d" if kind == "date" else "%Y-%m-%dT%H:%M:%S"
        written = pc.coalesce(json_strings(pc.strftime(_days(values, form), shown)), written)
    column = written.take(encoded.indices)
    given = values.take(encoded.indices)
    lost: BoolArray = pc.and_(given.is_valid(), column.is_null()).to_numpy(zero_copy_only=False)
    return column, lost


def all_match(texts: pa.Array, pattern: str) -> bool:
    """Return whether a pattern is found in every text; True if there are none."""
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _any(texts: pa.Array, pattern: str) -> bool:
    """Return whether a pattern is found in any text."""
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _all_castable(texts: pa.Array, target: pa.DataType) -> bool:
    """Return whether all texts can be cast to a type as finite values."""
    try:
        return bool(pc.all(pc.is_finite(pc.cast(texts, target))).as_py())
    except pa.ArrowInvalid:
        return False


def _is_iso_date(texts: pa.Array) -> bool:
    """Return whether all texts are ISO 8601 days or times, all with a UTC offset or all without."""
    for target in (_MILLIS, pa.timestamp("us", "UTC")):
        try:
            pc.cast(texts, target)
        except pa.ArrowInvalid:
            continue
        return True
    return False


def _cast(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast texts to a type, null where that fails."""
    try:
        return pc.cast(texts, target)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, target)
        half = len(texts) // 2
        return pa.concat_arrays([_cast(texts[:half], target), _cast(texts[half:], target)])


def _json_numbers(texts: pa.Array, kind: ValueType, decimal: Mark) -> pa.Array:
    """Convert texts to JSON numbers of the type ``kind``, null for other texts."""
    if decimal or not _is_plain(texts.drop_null()):
        plain = [
            None if text is None else _plain_number(text, decimal) for text in texts.to_pylist()
        ]
        texts = pa.array(plain, pa.string())
    if kind == "integer":
        return pc.cast(_cast(pc.utf8_ltrim(texts, "+"), pa.int64()), pa.string())
    numbers = _cast(texts, pa.float64())
    numbers = pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))
    written = pc.cast(numbers, pa.string())
    whole = pc.fill_null(pc.match_substring_regex(written, "^-?[0-9]+$"), False)
    return pc.if_else(whole, pc.binary_join_element_wise(written, ".0", ""), written)


def _plain_number(text: str, decimal: Mark) -> str:
    """Return the plain number of an amount; other texts unchanged."""
    found = read_amounts([text], decimal)
    return found.numbers[0] if found else text


def _json_booleans(texts: pa.Array) -> pa.Array:
    """Convert words such as yes and no to JSON booleans, null for others."""
    lower = pc.utf8_lower(texts)
    said = pc.is_in(lower, value_set=pa.array(TRUE))
    known = pc.or_(said, pc.is_in(lower, value_set=pa.array(FALSE)))
    return pc.if_else(known, pc.if_else(said, "true", "false"), pa.scalar(None, pa.string()))


def _json_dates(texts: pa.Array) -> pa.Array:
    """Convert texts to JSON strings of ISO dates, null for other texts."""
    if _any(texts.drop_null(), "^-"):  # before our era
        return _json_of_matching(_DAY_BEFORE)(texts)
    days = _cast(pc.utf8_slice_codeunits(texts, 0, 10), _MILLIS)
    return json_strings(pc.strftime(days, "%Y-%m-%d"))


def _json_datetimes(texts: pa.Array) -> pa.Array:
    """Convert texts to JSON strings of ISO date-times, null for other texts."""
    written = pc.replace_substring_regex(texts, r"^(\d{4}-\d{2}-\d{2}) ", r"\1T")
    written = pc.replace_substring_regex(written, r"(\.\d*?)0+(Z|[+-]\d|$)", r"\1\2")
    written = pc.replace_substring_regex(written, r"\.(Z|[+-]\d|$)", r"\1")
    good = pc.or_(
        _cast(texts, _MILLIS).is_valid(), _cast(texts, pa.timestamp("us", "UTC")).is_valid()
    )
    written = pc.replace_substring_regex(written, r"(:[\d.]+[+-]\d\d):?(\d\d)$", r"\1:\2")
    written = pc.replace_substring_regex(written, r"(:[\d.]+[+-]\d\d)$", r"\1:00")
    return json_strings(pc.if_else(good, written, pa.scalar(None, pa.string())))


def _json_durations(texts: pa.Array) -> pa.Array:
    """Convert durations to ISO 8601 in JSON, null for others: ``1h 30m`` is ``PT1H30M``."""
    spoken = pc.match_substring_regex(texts, _HOURS)
    parts = texts
    for unit in ("[dD]", "[hH]", "[mM]", "[sS]"):
        parts = pc.replace_substring_regex(parts, rf"(\d) ?({unit})[a-z]*,? ?", r"\1\2")
    parts = pc.replace_substring_regex(pc.utf8_upper(parts), r"^(\d+D)?(.*)$", r"P\1T\2")
    iso = pc.utf8_rtrim(parts, "T")
    texts = pc.replace_substring_regex(texts, _CLOCKED, r"PT\1H\2M\3S")
    return _json_of_matching(_DURATION)(pc.if_else(spoken, iso, texts))


def _json_of_matching(pattern: str) -> Callable[[pa.Array], pa.Array]:
    """Return a function that converts texts matching a pattern to JSON strings, others to null."""

    def written(texts: pa.Array) -> pa.Array:
        """Convert the texts that match the pattern to JSON strings, others to null."""
        fits = pc.match_substring_regex(texts, pattern)
        return json_strings(pc.if_else(fits, texts, pa.scalar(None, pa.string())))

    return written


def _json_times(texts: pa.Array) -> pa.Array:
    """Convert times of day to JSON strings, null for other texts."""
    return _json_of_matching(_TIME)(pc.replace_substring_regex(texts, r"^(\d):", r"0\1:"))


_WRITE: dict[str, Callable[[pa.Array], pa.Array]] = {
    "boolean": _json_booleans,
    "date": _json_dates,
    "datetime": _json_datetimes,
    "time": _json_times,
    "duration": _json_durations,
    "point": _json_of_matching(_POINT),
}
