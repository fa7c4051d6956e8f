"""The fixtures of the shared suite, made from the ``make_store`` that each implementation gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite(
    *(f"tests.graph.{name}_conformance" for name in ("attached", "change", "store"))
)

from tests.graph.store_conformance import Reference, tricky_tables  # noqa: E402

if TYPE_CHECKING:
    from kgqa.graph.model import GraphTables
    from kgqa.graph.store import GraphStore
    from tests.graph.store_conformance import MakeStore


@pytest.fixture(scope="class")
def tables() -> GraphTables:
    return tricky_tables()


@pytest.fixture(scope="class")
def store(make_store: MakeStore, tables: GraphTables) -> GraphStore:
    return make_store(tables)


@pytest.fixture(scope="class")
def reference(tables: GraphTables) -> Reference:
    return Reference(tables)
