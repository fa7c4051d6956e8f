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
    """The KGs of one SPARQL endpoint: those attached in the home folder."""

    def __init__(self, url: str, options: StoreOptions) -> None:
        """Check the URL. Raises UsageError if it is not an endpoint's, or holds credentials."""
        SparqlClient(url)
        self.url = self.full_url = url

    def connect(self, graph: str = "") -> SparqlClient:
        """Return a client for a named graph of the endpoint, "" for the default graph."""
        return SparqlClient(self.url, graph)

    def list_kgs(self, faults: list[KgqaError] | None = None) -> list[KGInfo]:
        """Return an empty list: attached KGs are listed by the home folder."""
        return []

    def open(self, kg: str | None = None) -> GraphStore:
        """Raise UsageError: an endpoint must be attached before it is opened."""
        raise self._unattached()

    def writer(self, kg: str) -> AbstractContextManager[GraphWriter]:
        """Raise UsageError: an endpoint is read-only."""
        raise UsageError(
            f"kgqa does not write to a SPARQL endpoint ({self.url}).",
            "Use it as it is: `kgqa attach`; or load into another store by `graph`.",
        )

    def _unattached(self) -> UsageError:
        """Return the error of an endpoint that is not attached."""
        return UsageError(
            f"The endpoint {self.url} is not attached.", f"Attach it: kgqa attach {self.url}."
        )
