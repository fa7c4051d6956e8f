"""Results as tables: Arrow, which every data frame library reads; pandas if it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kgqa.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


class Tabular:
    """A result that can be converted to a table: Arrow, pandas, polars, DuckDB.

    Data frame libraries read it by Arrow's C stream interface, without a copy.
    """

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """Return the result as an Arrow table."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """Return the result as a ``pandas.DataFrame``. Raises UsageError without pandas."""
        if find_spec("pandas") is None:
            raise UsageError(
                "pandas is not installed.",
                "Install it (`pip install pandas`), or use to_arrow(), which polars reads, too.",
            )
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)
