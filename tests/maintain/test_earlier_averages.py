"""Immediate views whose averages an earlier version has stored as DOUBLE."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hornbeam_server.maintain.deltas.program import translated
from hornbeam_server.maintain.immediate.definition import define, define_stored
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.model import DeclaredView, Refresh
from hornbeam_server.schema.types import Kind
from hornbeam_server.storage.codec.folds import Fold
from tests.txlayer.database_world import catalog_of

CATALOG = catalog_of(
    load_ddl("CREATE TABLE a (i INTEGER PRIMARY KEY, g INTEGER, n DECIMAL(9,2), x BIGINT)")
)


def declared(average: str) -> DeclaredView:
    sql = f"SELECT g, {average} AS mean FROM a GROUP BY g"
    return DeclaredView("v", sql, refresh=Refresh.IMMEDIATE)


@pytest.mark.parametrize(
    "average", ["avg(n)", "avg(x)", "avg(n) + 1", "sum(n) / count(n)", "max(sqrt(n))"]
)
def test_a_stored_view_keeps_the_type_of_its_averages(average):
    view = declared(average)
    earlier = define(view, CATALOG, translated(view, CATALOG, double_quotients=True)).view
    current = define(view, CATALOG).view
    assert [v.columns[1].type.kind for v in (earlier, current)] == [Kind.DOUBLE, Kind.DECIMAL]
    for stored in (earlier, current):
        assert define_stored(stored, CATALOG).view == stored


def test_a_stored_view_keeps_the_type_of_a_sign():
    view = declared("max(sign(n))")
    earlier = define(view, CATALOG, translated(view, CATALOG, double_quotients=True)).view
    current = define(view, CATALOG).view
    assert [v.columns[1].type.kind for v in (earlier, current)] == [Kind.INTEGER, Kind.DECIMAL]
    assert define_stored(earlier, CATALOG).view == earlier


def test_a_group_has_an_average_of_the_type_of_its_column():
    view = declared("avg(n)")
    current = define(view, CATALOG).view
    earlier = define(view, CATALOG, translated(view, CATALOG, double_quotients=True)).view
    names = [column.name for column in current.cells.columns]
    values = {"g0": 1, "_lane": 16, "_count": 3, "sum0": Decimal("10.00"), "count0": 3}
    row = tuple(values[name] for name in names)
    for stored, mean in ((current, Decimal("3.33333333333333330000")), (earlier, 10.0 / 3.0)):
        assert Fold(stored).row([row]) == (1, mean)


def test_a_stored_view_keeps_the_type_of_epochs():
    catalog = catalog_of(load_ddl("CREATE TABLE a (i INTEGER PRIMARY KEY, g INTEGER, t TIMESTAMP)"))
    view = DeclaredView(
        "v",
        "SELECT g, max(extract(epoch FROM t)) AS last FROM a GROUP BY g",
        refresh=Refresh.IMMEDIATE,
    )
    earlier = define(view, catalog, translated(view, catalog, double_quotients=True)).view
    assert earlier.columns[1].type.kind is Kind.DOUBLE
    for stored in (earlier, define(view, catalog).view):
        assert define_stored(stored, catalog).view == stored
