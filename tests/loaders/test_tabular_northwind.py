"""A real database of eleven tables, some with rows that unquoted commas have shifted.

The tables lie in the folder that KGQA_SHARED names; without it these tests are skipped.
"""

from __future__ import annotations

import csv
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.loaders.conftest import SHARED
from tests.loaders.tables_read import Read, read_tables

if TYPE_CHECKING:
    from pathlib import Path

IN_THE_DUMP = {"Product": 77, "Order": 830, "Customer": 91, "Supplier": 29, "Category": 8}
BESIDE_IT = {"Employee": 9, "Territory": 53, "Shipper": 3, "Region": 4}
RELATIONS = {  # those of the dump: PART_OF, SUPPLIES, PURCHASED, ORDERS; and what it lacks
    ("Product", "category", "Category"): 77,
    ("Product", "supplier", "Supplier"): 77,
    ("Order", "customer", "Customer"): 830,
    ("Order", "product", "Product"): 2155,
    ("Order", "employee", "Employee"): 830,
    ("Order", "ship via shipper", "Shipper"): 830,
    ("Employee", "territory", "Territory"): 49,
    ("Employee", "reports to", "Employee"): 8,
    ("Territory", "region", "Region"): 53,
}


@pytest.fixture(scope="module")
def folder() -> Path:
    found = SHARED / "text2cypher" / "northwind_tables"
    if not found.is_dir():
        pytest.skip(f"there is no {found}")
    return found


@pytest.fixture(scope="module")
def northwind(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Read:
    return read_tables(tmp_path_factory.mktemp("northwind"), [folder])


def test_it_holds_all_that_the_dump_holds_and_what_that_leaves_out(northwind: Read) -> None:
    types = Counter(type_ for row in northwind.entities.values() for type_ in row["types"] or ())
    for type_, count in (IN_THE_DUMP | BESIDE_IT).items():
        assert types[type_] == count, type_
    edges = Counter(
        (head.split("/")[0], relation, tail.split("/")[0])
        for head, relation, tail, _ in northwind.edges
    )
    for pattern, count in RELATIONS.items():
        assert edges[pattern] == count, pattern
    assert not northwind.rejects()


def test_each_cell_of_a_whole_row_is_in_the_graph(northwind: Read, folder: Path) -> None:
    """Compared with what Python's own reader gives; pictures are left out."""
    with (folder / "products.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        found = northwind.properties(f"Product/{row['productID']}")
        assert found["productName"] == row["productName"]
        assert found["unitPrice"] == float(row["unitPrice"])
        assert found["discontinued"] is (row["discontinued"] == "1")
    assert "picture" not in northwind.properties("Category/1")
    assert "homePage" not in northwind.properties("Supplier/1")  # NULL


def test_rows_that_commas_have_shifted_are_mended(northwind: Read) -> None:
    order = northwind.properties("Order/10250")
    assert order["shipAddress"] == "Rua do Paço, 67"
    assert ("Order 10250", "Rio de Janeiro") in northwind.triples("ship city")
    assert northwind.properties("Supplier/18")["address"] == "203, Rue des Francs-Bourgeois"
    assert northwind.entities["Supplier/7"]["name"] == "Pavlova, Ltd."
    cities = {name for _, name in northwind.triples("ship city")}
    assert not [name for name in cities if any(letter.isdigit() for letter in name)]
