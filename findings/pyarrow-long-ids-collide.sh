#!/usr/bin/env bash
# pyarrow 26.0.1: integers beyond 64 bits are inferred as doubles, so different ids become equal.
#
# pyarrow.csv and pyarrow.json infer int64 for a column of integers. If one integer of the column
# does not fit, the whole column becomes double, without an error or a warning: two keys of 20
# digits that differ in the last one are equal afterwards, and so are two of 16 digits beside them.
# JSON does the same to a column of integers in which one value has a fraction. A graph that takes
# such a column for ids merges things and joins rows that do not belong together; a message shows
# 1.8446744073709552e+19. DuckDB 2.0.1 reads the same file as HUGEINT, exactly. A reader of ids must
# ask for text (column_types) or check for doubles where the text has no point.
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check pyarrow==26.0.1 duckdb==2.0.1
cat >"$temp/people.csv" <<'CSV'
id,name
18446744073709551617,Ada
18446744073709551618,Bo
9007199254740993,Cy
9007199254740992,Di
CSV
cat >"$temp/people.jsonl" <<'JSON'
{"id": 18446744073709551617, "name": "Ada"}
{"id": 18446744073709551618, "name": "Bo"}
{"id": 9007199254740993, "name": "Cy"}
{"id": 9007199254740992, "name": "Di"}
JSON
"$temp/venv/bin/python" - "$temp" <<'PYTHON'
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

folder = Path(sys.argv[1])
seen = {}
for kind, read in (("csv", pa.csv.read_csv), ("json", pa.json.read_json)):
    table = read(folder / ("people.csv" if kind == "csv" else "people.jsonl"))
    ids = table.column("id")
    seen[kind] = (str(ids.type), len(set(ids.to_pylist())))
    print(f"pyarrow.{kind} {pa.__version__}: {table.num_rows} rows, type {ids.type}, "
          f"{seen[kind][1]} different ids: {ids.to_pylist()}")
text = pa.csv.read_csv(
    folder / "people.csv", convert_options=pa.csv.ConvertOptions(column_types={"id": pa.string()})
)
seen["csv as text"] = len(set(text.column("id").to_pylist()))
rows = duckdb.sql(f"select id, typeof(id) from read_csv('{folder / 'people.csv'}')").fetchall()
seen["duckdb"] = (rows[0][1], len({row[0] for row in rows}))
print(f"duckdb {duckdb.__version__}: type {rows[0][1]}, {seen['duckdb'][1]} different ids")
assert seen == {
    "csv": ("double", 2),
    "json": ("double", 2),
    "csv as text": 4,
    "duckdb": ("HUGEINT", 4),
}, seen
print("as described")
PYTHON
