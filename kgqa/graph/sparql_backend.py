"""A SPARQL endpoint as an entry of the stores' registry: it is attached, and never written to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.errors import UsageError
from kgqa.graph.backend import StoreBackend
from kgqa.graph.sparql_client import SparqlClient

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from kgqa.errors import KgqaError
    from kgqa.graph.backend import StoreOptions
    from kgqa.graph.model import KGInfo
    from kgqa.graph.store import GraphStore, GraphWriter


class SparqlStores(StoreBackend):
    """One endpoint; its KGs are those that are attached in the home."""

    def __init__(self, url: str, options: StoreOptions) -> None:
        """Take the URL. Raises UsageError if it is not one of an endpoint, or holds credentials."""
        SparqlClient(url)
        self.url = self.full_url = url

    def connect(self, graph: str = "") -> SparqlClient:
        """Return a client of the endpoint for a named graph, by default the default one."""
        return SparqlClient(self.url, graph)

    def list_kgs(self, faults: list[KgqaError] | None = None) -> list[KGInfo]:
        """Return none: what is attached is known by the home."""
        return []

    def open(self, kg: str | None = None) -> GraphStore:
        """Raise UsageError: an endpoint is attached first."""
        raise self._unattached()

    def writer(self, kg: str) -> AbstractContextManager[GraphWriter]:
        """Raise UsageError: an endpoint is only read."""
        raise UsageError(
            f"kgqa does not write to a SPARQL endpoint ({self.url}).",
            "Use it as it is: `kgqa attach`; or load into another store by `graph`.",
        )

    def _unattached(self) -> UsageError:
        return UsageError(
            f"The endpoint {self.url} is not attached.", f"Attach it: kgqa attach {self.url}."
        )
