"""Data of the micro-benchmark (Synergy, IX-B): customers, orders and order lines, 1 : 10 : 100.

The relations are TPC-W's, with all their columns and the foreign keys among the three. The module
writes the catalogs explicitly, so that the views and indexes of each figure are known exactly.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from hornbeam_server.demo.tpcw import SCHEMA
from hornbeam_server.demo.tpcw.data import SHIPPING, STATUSES, TODAY, Row, customer_row
from hornbeam_server.schema.catalog import Catalog, Forest, Index, Purpose, State
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.model import KeyPart, Relation, Schema
from hornbeam_server.schema.views import JoinView, ViewColumn

RELATIONS = ("customer", "orders", "order_line")
ORDERS_PER_CUSTOMER = LINES_PER_ORDER = 10
ROWS_PER_CUSTOMER = 1 + ORDERS_PER_CUSTOMER * (1 + LINES_PER_ORDER)

Q1 = "SELECT * FROM customer, orders WHERE c_id = o_c_id"
Q2 = "SELECT * FROM customer, orders, order_line WHERE c_id = o_c_id AND o_id = ol_o_id"
POINT = "SELECT o_total, o_status FROM orders WHERE o_id = ?"
PREFIX = (
    "SELECT c_uname, o_id, o_date, o_total FROM customer, orders WHERE c_id = o_c_id AND c_id = ?"
)
INSERT = (
    "INSERT INTO orders (o_id, o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_status)"
    " VALUES (?, ?, ?, ?, ?, ?, 'AIR', 'PENDING')"
)

V1, V2 = "customer__orders", "customer__orders__order_line"
BY_CUSTOMER = "customer__orders__by_c_id"


def micro_schema(file: Path = SCHEMA) -> Schema:
    """TPC-W's schema, restricted to the three relations."""
    whole = load_ddl(file.read_text(), file.name)
    return Schema(tuple(_restricted(whole.relation(name)) for name in RELATIONS))


def _restricted(relation: Relation) -> Relation:
    kept = tuple(key for key in relation.foreign_keys if key.parent in RELATIONS)
    return replace(relation, foreign_keys=kept)


def micro_catalog(version: int, views: tuple[str, ...], counts: dict[str, int]) -> Catalog:
    """A catalog of the three relations in one tree, with the views V1 and V2 that `views` names.

    V1 has a view-index by customer, which serves `PREFIX`.
    """
    schema = micro_schema()
    edges = [schema.relation(name).foreign_keys[0] for name in RELATIONS[1:]]
    known = {V1: _view(schema, V1, 2), V2: _view(schema, V2, 3)}
    indexes = [
        Index(
            "orders__by_o_c_id",
            "orders",
            (KeyPart("o_c_id"),),
            purpose=Purpose.FOREIGN_KEY,
            reason="finds a customer's orders",
        )
    ]
    if V1 in views:
        indexes.append(
            Index(
                BY_CUSTOMER,
                V1,
                (KeyPart("c_id"),),
                include=("c_uname", "o_date", "o_total"),
                purpose=Purpose.VIEW,
                reason="finds a customer's rows of the view",
            )
        )
    if V2 in views:
        indexes.append(
            Index(
                "customer__orders__order_line__by_c_id",
                V2,
                (KeyPart("c_id"),),
                purpose=Purpose.MAINTENANCE,
                reason="finds the view's rows below a customer",
            )
        )
    names = [*views, *(index.name for index in indexes)]
    return Catalog(
        version,
        schema,
        Forest(RELATIONS[:1], tuple(zip(RELATIONS[1:], edges, strict=True))),
        tuple(known[name] for name in views),
        tuple(indexes),
        tuple((name, State.BUILDING) for name in names),
        row_counts=tuple(counts.items()),
    )


def _view(schema: Schema, name: str, length: int) -> JoinView:
    path = RELATIONS[:length]
    columns = [
        ViewColumn(column, relation, column)
        for relation in path
        for column in schema.relation(relation).column_names
    ]
    edges = tuple(schema.relation(relation).foreign_keys[0] for relation in path[1:])
    return JoinView(name, path, edges, tuple(columns))


def row_counts(customers: int) -> dict[str, int]:
    """The number of rows of each relation and view."""
    orders = customers * ORDERS_PER_CUSTOMER
    lines = orders * LINES_PER_ORDER
    return {"customer": customers, "orders": orders, "order_line": lines, V1: orders, V2: lines}


def rows(relation: str, customers: int) -> Iterator[Row]:
    """The rows of a relation in key order. Every call gives the same rows."""
    rng = random.Random(relation)
    counts = row_counts(customers)
    match relation:
        case "customer":
            return (customer_row(i, i, rng) for i in range(1, customers + 1))
        case "orders":
            return (order_row(i, rng) for i in range(1, counts["orders"] + 1))
        case _:
            orders = range(1, counts["orders"] + 1)
            lines = range(1, LINES_PER_ORDER + 1)
            return (line_row(order, line, rng) for order in orders for line in lines)


def order_row(order: int, rng: random.Random) -> Row:
    """The row of an order. A customer's orders have consecutive numbers."""
    customer = (order - 1) // ORDERS_PER_CUSTOMER + 1
    ordered = TODAY - dt.timedelta(days=rng.randint(1, 60), seconds=order % 86_400)
    total = Decimal(rng.randint(1_000, 99_999)) / 100
    tax = (total * 825 / 10_000).quantize(Decimal("0.01"))
    shipped = ordered + dt.timedelta(days=rng.randint(0, 7))
    ship, status = rng.choice(SHIPPING), rng.choice(STATUSES)
    addresses = customer, customer
    return order, customer, ordered, total, tax, total + tax, ship, shipped, *addresses, status


def line_row(order: int, line: int, rng: random.Random) -> Row:
    item, quantity = rng.randint(1, 10_000), rng.randint(1, 300)
    comment = f"line {line} of order {order}: {'handle with care ' * rng.randint(1, 5)}"
    return line, order, item, quantity, rng.randint(0, 30) / 100, comment.strip()
