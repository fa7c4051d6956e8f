#!/usr/bin/env bash
# neo4j (Python driver) 6.4.1: of two DateTimes each can be earlier, and their difference is no time.
#
# What Neo4j stores as ZONED DATETIME arrives as neo4j.time.DateTime. If two have another offset (in
# one named zone summer and winter do), `<` and `>` hold if the dates OR the times of day say so: 1
# January 20:00 in Berlin is before 1 July 10:00, and 1 July before 1 January. sorted, min, max and
# heapq then give an order that depends on the order they were given; `<=`, `>=` and `==` are right.
# `a - b` (documented as the duration between the two) takes the digits apart and leaves the offsets
# out: two equal instants are an hour apart, and from 31 January to 29 February is P1M-2D, which,
# added again, is 27 February; Cypher's duration.between says P29D. A day later in a named zone keeps
# the offset of the day before, an hour off after the clocks change. Durations compare as tuples, so
# sorted gives 5,000 hours, 100 days, one month, ORDER BY of Neo4j 5.26.28 the reverse. Events of a
# graph should be ordered and subtracted in Cypher, or after to_native() and astimezone(UTC).
# With NEO4J_URI, NEO4J_USERNAME and NEO4J_PASSWORD, Neo4j is asked as well.
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check neo4j==6.4.1 pytz==2026.6
"$temp/venv/bin/python" - <<'PYTHON'
import os
from datetime import datetime
from itertools import permutations

import neo4j
import pytz
from neo4j.time import DateTime, Duration

ASK = """WITH datetime('2020-01-01T20:00[Europe/Berlin]') AS january,
datetime('2020-07-01T10:00[Europe/Berlin]') AS july,
datetime('2020-01-31T00:00Z') AS first, datetime('2020-02-29T00:00Z') AS last
RETURN january, july, july < january AS earlier, duration.between(first, last) AS between,
first + $difference AS again, datetime('2020-03-28T12:00[Europe/Berlin]') + $day AS sunday"""
BERLIN = pytz.timezone("Europe/Berlin")  # as the driver makes it of what Neo4j sends


def at(text, zone=BERLIN):
    return DateTime.from_native(zone.localize(datetime.fromisoformat(text)))


def short(value):
    return value.iso_format().replace(":00.000000000", "")


january, july = at("2020-01-01T20:00"), at("2020-07-01T10:00")
print(f"January < July: {january < july}, July < January: {july < january}")
assert january < july < january and january > july and january <= july and not july <= january
events = [january, july, at("2020-12-01T05:00")]
orders = {tuple(map(short, sorted(given))) for given in permutations(events)}
print("sorted, of the same three in other orders:", *sorted(orders), sep="\n  ")
assert len(orders) > 1 and tuple(map(short, events)) in orders

noon, eleven = at("2020-01-01T12:00"), at("2020-01-01T11:00", pytz.utc)
print(f"{short(noon)} == {short(eleven)}: {noon == eleven}; one less the other: {noon - eleven}")
assert noon == eleven and noon - eleven == Duration(hours=1)
first, last = at("2020-01-31T00:00", pytz.utc), at("2020-02-29T00:00", pytz.utc)
print(f"{short(last)} less {short(first)}: {last - first}, added: {short(first + (last - first))}")
assert last - first == Duration(months=1, days=-2) and first + (last - first) != last
saturday, day = at("2020-03-28T12:00"), Duration(days=1)
print(f"a day after {short(saturday)}: {short(saturday + day)}, in summer time already")
assert saturday + day != at("2020-03-29T12:00")
durations = [Duration(months=1), Duration(days=100), Duration(hours=5000)]
print("durations, sorted:", *sorted(durations))
assert sorted(durations) == durations[::-1]

if uri := os.environ.get("NEO4J_URI"):
    login = os.environ["NEO4J_USERNAME"], os.environ["NEO4J_PASSWORD"]
    with neo4j.GraphDatabase.driver(uri, auth=login) as driver:
        said = driver.execute_query(ASK, difference=last - first, day=day).records[0]
        print("Neo4j:", *(f"\n  {key} {value}" for key, value in said.items()))
        assert said["july"] < said["january"] and said["january"] < said["july"]
        assert said["earlier"] is False and said["between"] == Duration(days=29)
        assert said["again"] == first + (last - first) and said["sunday"] != saturday + day
        by_neo4j = "UNWIND $durations AS d RETURN d ORDER BY d"
        found, _, _ = driver.execute_query(by_neo4j, durations=sorted(durations))
        print("  durations by ORDER BY:", *(row["d"] for row in found))
        assert [row["d"] for row in found] == durations
PYTHON
echo "neo4j 6.4.1: DateTimes of two offsets have no order, and differences that do not add up"
