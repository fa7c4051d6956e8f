"""The schema of a small shop, for plans."""

from kgqa.graph.schema import EntityType, GraphSchema, Property, RelationPattern, ValueType


def properties(**types: ValueType) -> tuple[Property, ...]:
    return tuple(Property(name, type_, many=name == "tags") for name, type_ in types.items())


SCHEMA = GraphSchema(
    types=(
        EntityType(
            "Order", 3, properties(orderDate="date", shippedDate="date", shipCountry="text")
        ),
        EntityType(
            "Product",
            3,
            properties(productName="text", unitPrice="float", discontinued="boolean", tags="text"),
            names=("productName",),
        ),
        EntityType("Employee", 3, properties(name="text", hired="datetime"), names=("name",)),
        EntityType("Supplier", 2, properties(companyName="text"), names=("companyName",)),
    ),
    relations=(
        RelationPattern("ORDERS", "Order", "Product", 5, properties(quantity="integer")),
        RelationPattern("REPORTS_TO", "Employee", "Employee", 2),
        RelationPattern("SUPPLIES", "Supplier", "Product", 3),
    ),
)
