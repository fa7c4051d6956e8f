"""Links that fill Neo4j Browser's editor with the Cypher that draws given paths."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from kgqa.graph.attached_store import AttachedStore
from kgqa.graph.neo4j_store import Neo4jStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.store import GraphStore

    Fact = tuple[str, str, str]  # head id, relation id, tail id, in stored direction

MAX_LENGTH = 7_000  # characters of a link: Browser's server takes 8 kB of address and headers


def browser_url(store: GraphStore, facts: Sequence[Fact], browser: str | None = None) -> str | None:
    """Return a link to Neo4j Browser with Cypher that draws the given edges; None without Neo4j.

    ``facts``: as many as fit, from the first. ``browser``: its address, if not the default.
    """
    if not isinstance(store, Neo4jStore | AttachedStore):
        return None
    edges = list(dict.fromkeys(facts))
    drawn = len(edges)
    while True:
        comment = "" if drawn == len(edges) else f"// the first {drawn} of {len(edges)} edges\n"
        url = _url(store, comment + store.drawing(edges[:drawn]), browser)
        if len(url) <= MAX_LENGTH or drawn == 0:
            return url
        drawn = min(drawn - 1, drawn * MAX_LENGTH // len(url))


def _url(store: Neo4jStore | AttachedStore, text: str, browser: str | None) -> str:
    """Build the Neo4j Browser link for a statement ``text`` on the store's server."""
    parts = urlsplit(store.url)
    host = parts.hostname or "localhost"
    host = f"[{host}]" if ":" in host else host
    if browser is None:
        browser = f"https://{host}:7473" if "+s" in parts.scheme else f"http://{host}:7474"
    connection = store.connection
    user = quote(connection.username, safe="")
    values = {
        "dbms": f"{parts.scheme}://{user}@{host}:{parts.port or 7687}",
        "db": connection.database,
        "cmd": "edit",
        "arg": text,
    }
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in values.items())
    return f"{browser.rstrip('/').removesuffix('/browser')}/browser?{query}"
