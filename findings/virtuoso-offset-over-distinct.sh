#!/usr/bin/env bash
# Virtuoso 7.2.5.1 (Debian 12): LIMIT 3 OFFSET 39 around a SELECT DISTINCT gives the first 40 rows.
#
# Where the query inside is a SELECT DISTINCT without an order, the outer OFFSET skips nothing: it is
# added to the LIMIT instead. The second page begins with the first one's rows and is longer than
# asked for, and a page behind the last row gives all of them, so a client that reads pages until
# one is empty never ends, and one that stops after so many rows has copies in place of the rest.
# The same page without DISTINCT inside, with DISTINCT outside alone, or with an ORDER BY inside is
# right. Clients that page by wrapping a query must give it an order, or count what comes.
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
python3 - >data.nt <<'PYTHON'
for place in range(40):
    print(f'<http://x/{place}> <http://x/name> "little town {place}" .')
PYTHON
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
ROWS = "?s <http://x/name> ?l"
INNER = {
    "DISTINCT": f"SELECT DISTINCT ?s {{ {ROWS} }}",
    "no DISTINCT": f"SELECT ?s {{ {ROWS} }}",
    "DISTINCT and ORDER BY": f"SELECT DISTINCT ?s {{ {ROWS} }} ORDER BY ?s",
}
seen = {}
for name, inner in INNER.items():
    pages = [
        values(f"SELECT * {FROM} {{ {{ {inner} }} }} LIMIT 3 OFFSET {at}") for at in (0, 3, 39, 100)
    ]
    seen[name] = [len(page) for page in pages], pages[1][:3] == pages[0]
    print(f"Virtuoso 7.2.5.1, inside {name}: rows of the pages at 0, 3, 39, 100: {seen[name][0]};",
          f"the second begins as the first: {seen[name][1]}")
assert seen == {
    "DISTINCT": ([3, 6, 40, 40], True),
    "no DISTINCT": ([3, 3, 1, 0], False),
    "DISTINCT and ORDER BY": ([3, 3, 1, 0], False),
}, seen
print("as described")
PYTHON
