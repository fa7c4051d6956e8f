#!/usr/bin/env bash
# neo4j (Python driver) 6.4.1: with neo4j+s:// the fault of TLS is no cause of the error.
#
# A server that does not speak TLS is asked with bolt+s:// and with neo4j+s://. For bolt+s:// the
# driver raises ServiceUnavailable whose chain of causes ends in ssl.SSLError. For neo4j+s:// it
# raises ServiceUnavailable("Unable to retrieve routing information"), and the ssl.SSLError is only
# inside an ExceptionGroup among its causes. A program that walks __cause__ and __context__ to tell
# "no TLS there" from "nothing there" finds it with the first scheme and misses it with the second,
# and tells users to start a server that runs. The members of groups must be walked, too.
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check neo4j==6.4.1
"$temp/venv/bin/python" - <<'PYTHON'
import logging
import socket
import ssl
import threading

import neo4j

logging.disable(logging.CRITICAL)


def answer(listening: socket.socket) -> None:
    while True:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1_000)
            connection.sendall(b"this server speaks no TLS\r\n")


def causes(error: BaseException | None, groups: bool) -> list[BaseException]:
    found, waiting = [], [error]
    while waiting:
        each = waiting.pop()
        if each is None or each in found:
            continue
        found.append(each)
        waiting += [each.__cause__, each.__context__]
        if groups and isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
    return found


seen = {}
with socket.create_server(("127.0.0.1", 0)) as listening:
    threading.Thread(target=answer, args=(listening,), daemon=True).start()
    port = listening.getsockname()[1]
    for scheme in ("bolt+s", "neo4j+s"):
        driver = neo4j.GraphDatabase.driver(f"{scheme}://127.0.0.1:{port}", auth=("a", "b"))
        try:
            driver.verify_connectivity()
        except neo4j.exceptions.ServiceUnavailable as error:
            held = [
                any(isinstance(each, ssl.SSLError) for each in causes(error, groups))
                for groups in (False, True)
            ]
            seen[scheme] = held
            print(f"neo4j {neo4j.__version__} {scheme}: {str(error).splitlines()[0][:60]!r}")
            print(f"  ssl.SSLError among causes: {held[0]}; with members of groups: {held[1]}")
        finally:
            driver.close()
assert seen == {"bolt+s": [True, True], "neo4j+s": [False, True]}, seen
print("as described")
PYTHON
