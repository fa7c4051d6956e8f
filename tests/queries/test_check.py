"""A plan that does not fit the schema is refused with what there is."""

import pytest

from kgqa.errors import PlanError
from kgqa.queries.check import check
from kgqa.queries.text import parse_plan
from tests.queries.shop import SCHEMA


@pytest.mark.parametrize(
    "text",
    [
        'Product <ORDERS Order | Order.orderDate = "1997-Q2" | desc sum ORDERS.quantity | limit 3',
        "Order | Order.shippedDate > Order.orderDate | give year Order.orderDate, count Order",
        "Employee REPORTS_TO*> Employee | Employee = 'Fuller'",
        "* <ORDERS * | give *, count ORDERS",
        "Product | size Product.tags > 2 | Product.tags in 'a', 'b' | Product.tags not missing",
        "Product <ORDERS Order | give sum ORDERS.quantity * Product.unitPrice",
        "Order | desc Order.orderDate | limit 2 | then Order ORDERS> Product",
        "Supplier | without Supplier SUPPLIES> Product where Product.discontinued = true",
        "Supplier SUPPLIES> Product | least Product.unitPrice >= 2",
        "Supplier SUPPLIES> Product | Product.unitPrice > average Product.unitPrice",
    ],
)
def test_what_fits_passes(text: str) -> None:
    check(parse_plan(text), SCHEMA)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Prodct", "The graph has no class Prodct. Did you mean Product?"),
        ("X", "There is Order, Product, Employee, Supplier."),
        ("Product ORDERS> Order", "There is Order ORDERS> Product"),
        ("Product SUPPLIED> Order", "no relation SUPPLIED. Did you mean SUPPLIES?"),
        ("Product | Product.unitprice > 2", "no property unitprice. Did you mean unitPrice?"),
        ("Order ORDERS> Product | ORDERS.price > 2", "There is quantity."),
        ("Supplier SUPPLIES> Product | SUPPLIES.x > 2", "It has no properties."),
        ("Product | Product.unitPrice contains 'x'", "not an operator for a number"),
        ("Product | Product.unitPrice = 'x'", "a number is needed"),
        ("Product | Product.unitPrice = true", "a number is needed"),
        ("Product | Product.unitPrice > most Product.unitPrice", "with the average of a class"),
        ("Product | Product.discontinued > true", "not an operator for true or false"),
        ("Order | Order.orderDate > 'May'", 'a year "1997"'),
        ("Product | year Product.unitPrice = 3", "a number, and has no year"),
        ("Product | give sum Product.productName", "productName is a text"),
        ("Product | give sum Product", "can only be counted"),
        ("Product | Product > 'x'", "not an operator for a thing"),
        ("Product | Product missing", "only a property can be missing"),
        ("Product | Product.unitPrice < Product.productName", "not compared"),
        ("Order | give sum Order.orderDate * 2", "not a number to calculate with"),
        ("Order | give Order.orderDate - 2", "only another date can be subtracted"),
        ("Supplier SUPPLIES*> Product", "repeated leads to the class"),
        ("Product | asc Product.discontinued", "Nothing can be ordered"),
        ("X | desc count X | limit 1 | then X", "The graph has no class X"),
    ],
)
def test_what_does_not_fit_says_what_there_is(text: str, said: str) -> None:
    with pytest.raises(PlanError) as error:
        check(parse_plan(text), SCHEMA)
    assert said in str(error.value)
