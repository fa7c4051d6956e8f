#!/usr/bin/env bash
# Virtuoso 7.2.5.1 (Debian 12): P1Y2M is stored as "14", and 15 March 44 BC comes after 2020.
#
# Literals of XSD's types are kept as SQL values. An xsd:duration of years and months comes back as
# the number of months, "14", still typed xsd:duration, which no parser of durations accepts. A date
# before year 1 comes back with a year of three digits ("-044-03-15", not in XSD's lexical space),
# ORDER BY puts it behind 2020, and a filter "before 2000" does not find it. ASK with FROM answers
# in JSON by a table with the column __ASK_RETVAL, empty for false, in place of {"boolean": false},
# so a client that reads "boolean" finds neither answer. An integer of 20 digits, which MAX handles
# exactly, is not found by the triple pattern that holds it. Clients of such an endpoint must read
# both forms of ASK, and may not trust an order of dates that reaches before year 1.
set -euo pipefail
temp=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; wait 2>/dev/null; rm -rf "$temp"' EXIT
cd "$temp"
apt-get update -q >/dev/null
apt-get download -qq -o APT::Sandbox::User=root virtuoso-opensource-7-bin=7.2.5.1+dfsg1-0.3 \
  virtuoso-opensource-7-common=7.2.5.1+dfsg1-0.3 >/dev/null
for package in ./*.deb; do dpkg-deb -x "$package" "$temp/root"; done
read -r sql http < <(python3 -c '
import socket
ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in ports))')
cat >server.ini <<INI
[Database]
DatabaseFile = $temp/v.db
ErrorLogFile = $temp/v.log
LockFile = $temp/v.lck
TransactionFile = $temp/v.trx
xa_persistent_file = $temp/v.pxa
[TempDatabase]
DatabaseFile = $temp/v-temp.db
TransactionFile = $temp/v-temp.trx
[Parameters]
ServerPort = 127.0.0.1:$sql
NumberOfBuffers = 10000
DirsAllowed = $temp
[HTTPServer]
ServerPort = 127.0.0.1:$http
ServerThreads = 4
INI
cat >data.nt <<'DATA'
<http://x/a> <http://x/time> "P1Y2M"^^<http://www.w3.org/2001/XMLSchema#duration> .
<http://x/a> <http://x/day> "-0044-03-15"^^<http://www.w3.org/2001/XMLSchema#date> .
<http://x/b> <http://x/day> "2020-01-01"^^<http://www.w3.org/2001/XMLSchema#date> .
<http://x/a> <http://x/size> "18446744073709551617"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://x/b> <http://x/size> "2"^^<http://www.w3.org/2001/XMLSchema#integer> .
DATA
binary=$(find root -name virtuoso-t | head -1)
client=$(find root -name 'isql*' -type f | grep -v isqlw | head -1)
"$binary" -f -c server.ini >server.out 2>&1 &
server=$!
for _ in $(seq 60); do
  curl -sf "http://127.0.0.1:$http/sparql?query=ASK%7B%7D" >/dev/null && break
  sleep 1
done
"$client" "127.0.0.1:$sql" dba dba \
  exec="DB.DBA.TTLP(file_to_string_output('$temp/data.nt'), '', 'http://g/', 512);" >/dev/null
python3 - "$http" <<'PYTHON'
import json
import sys
import urllib.parse
import urllib.request


def ask(query: str) -> dict:
    url = f"http://127.0.0.1:{sys.argv[1]}/sparql?" + urllib.parse.urlencode({"query": query})
    request = urllib.request.Request(url, headers={"Accept": "application/sparql-results+json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def values(query: str) -> list[str]:
    rows = ask(query)["results"]["bindings"]
    return [each["value"] for row in rows for each in row.values()]


FROM = "FROM <http://g/>"
DATE = "http://www.w3.org/2001/XMLSchema#date"
seen = {
    "duration": values(f"SELECT ?v {FROM} {{ ?s <http://x/time> ?v }}"),
    "days in order": values(f"SELECT ?v {FROM} {{ ?s <http://x/day> ?v }} ORDER BY ?v"),
    "before 2000": values(
        f'SELECT ?v {FROM} {{ ?s <http://x/day> ?v FILTER(?v < "2000-01-01"^^<{DATE}>) }}'
    ),
    "MAX": values(f"SELECT (MAX(?v) AS ?m) {FROM} {{ ?s <http://x/size> ?v }}"),
    "keys of ASK FROM": sorted(ask(f"ASK {FROM} {{ <http://x/b> <http://x/size> 2 }}")),
    "long integer by its triple": values(
        f"SELECT ?s {FROM} {{ ?s <http://x/size> 18446744073709551617 }}"
    ),
}
for name, found in seen.items():
    print(f"Virtuoso 7.2.5.1, {name}: {found}")
assert seen == {
    "duration": ["14"],
    "days in order": ["2020-01-01", "-044-03-15"],
    "before 2000": [],
    "MAX": ["18446744073709551617"],
    "keys of ASK FROM": ["head", "results"],
    "long integer by its triple": [],
}, seen
print("as described")
PYTHON
