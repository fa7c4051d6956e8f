"""The seam to whatever a whole KG is written into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kgqa.graph.model import GraphTables
    from kgqa.progress import Progress


class GraphWriter(Protocol):
    """Writes one KG so that it becomes visible only when it is whole, and replaces an older one."""

    @property
    def url(self) -> str:
        """Where the KG will lie, without credentials."""

    def write(self, tables: GraphTables, progress: Progress) -> None:
        """Write the KG. Stopped anywhere, the older KG of that name still serves.

        Raises StoreUnavailableError, GraphError.
        """
