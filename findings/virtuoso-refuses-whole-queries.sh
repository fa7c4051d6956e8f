#!/usr/bin/env bash
# Virtuoso 7.2.5.1 (Debian 12): one ill-typed literal in VALUES, or an order by COALESCE of an
# aggregate, and the whole query is refused with HTTP 400.
#
# "abc"^^xsd:integer is a legal term of RDF: ill-typed, it denotes no number, but a query that names
# it is a query like any other (RDF 1.1, section 3.3; Oxigraph answers it). Virtuoso converts the
# constants of VALUES to SQL values before it runs anything, and answers SR341: of a batch of
# hundreds of terms, one of which somebody once typed badly, nothing comes back. A client that looks
# up what it has read from such a store in batches must leave out what is ill-typed itself. And
# ORDER BY COALESCE(?m, "") over an aggregate that SELECT calls ?m is refused by its compiler as
# SP031, where ORDER BY ?m, and the same COALESCE around the aggregate itself, are not.
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
<http://x/a> <http://x/size> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .
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
import sys
import urllib.error
import urllib.parse
import urllib.request


def ask(query: str) -> str:
    url = f"http://127.0.0.1:{sys.argv[1]}/sparql?" + urllib.parse.urlencode({"query": query})
    request = urllib.request.Request(url, headers={"Accept": "text/csv"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return f"{reply.status}, {len(reply.read().splitlines()) - 1} rows"
    except urllib.error.HTTPError as error:
        said = error.read().decode().split()
        return f"{error.code} {next(word for word in said if word[:2] in ('SR', 'SP'))}"


INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
TERMS = "SELECT ?x FROM <http://g/> { VALUES ?x { %s <http://x/a> } ?x <http://x/size> ?size }"
GROUPS = "SELECT ?s (MIN(STR(?v)) AS ?m) FROM <http://g/> { ?s ?p ?v } GROUP BY ?s ORDER BY %s"
seen = {
    "VALUES with a well-typed literal": ask(TERMS % f'"7"^^<{INTEGER}>'),
    "VALUES with an ill-typed literal": ask(TERMS % f'"abc"^^<{INTEGER}>'),
    "ORDER BY ?m": ask(GROUPS % "?m"),
    'ORDER BY COALESCE(?m, "")': ask(GROUPS % 'COALESCE(?m, "")'),
    "ORDER BY COALESCE of the aggregate": ask(GROUPS % 'COALESCE(MIN(STR(?v)), "")'),
}
for name, found in seen.items():
    print(f"Virtuoso 7.2.5.1, {name}: {found}")
assert list(seen.values()) == ["200, 1 rows", "400 SR341:", "200, 2 rows", "400 SP031:", "200, 2 rows"]
print("as described")
PYTHON
