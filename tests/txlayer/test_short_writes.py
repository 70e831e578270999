"""Short updates and deletes do what the general path does: the same rows under the same locks, or
the same error."""

import asyncio
from datetime import timedelta
from decimal import Decimal

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.txlayer.statements.requests import Statement
from tests.depth import depth
from tests.txlayer.database_world import shop
from tests.txlayer.short_world import both
from tests.txlayer.test_transactions_law import begin, values_for, worlds
from tests.txlayer.transactions_model import visible


@st.composite
def writes_by_key(draw, schema, rows):
    """An UPDATE, DELETE or INSERT … ON CONFLICT of a row with a key, which mostly exists."""
    relation = draw(st.sampled_from([each for each in schema.relations if each.primary_key]))

    def value(column):
        return draw(values_for(schema, rows, relation, column))

    known = rows[relation.name]
    row = draw(st.sampled_from(known)) if known else tuple(map(value, relation.columns))
    if not draw(st.integers(0, 5)):
        row = tuple(map(value, relation.columns))
    some = st.lists(st.sampled_from(relation.columns), min_size=1, max_size=3, unique=True)
    if not draw(st.integers(0, 2)):
        given = [
            row[i] if column.name in relation.primary_key or draw(st.booleans()) else value(column)
            for i, column in enumerate(relation.columns)
        ]
        return Statement(draw(upserts(relation, draw(some))), given)
    key = {name: row[relation.positions[name]] for name in relation.primary_key}
    where = " AND ".join(f"{name} = ?" for name in key)
    parameters = [*key.values()]
    if not draw(st.integers(0, 3)):
        column = draw(st.sampled_from(relation.columns))
        where += f" AND {column.name} = ?"
        parameters.append(draw(st.sampled_from([row[relation.positions[column.name]], None])))
    returning = draw(st.sampled_from(["", " RETURNING *"]))
    if draw(st.booleans()):
        return Statement(f"DELETE FROM {relation.name} WHERE {where}{returning}", parameters)
    columns = draw(st.one_of(some, st.just([*relation.columns])))
    stays = draw(st.booleans())
    given = [
        row[relation.positions[column.name]]
        if stays and (column.name in key or draw(st.booleans()))
        else value(column)
        for column in columns
    ]
    form = st.sampled_from(["{0} = ?", "{0} = ?", "{0} = coalesce(?, {0})"])
    assigned = ", ".join(draw(form).format(column.name) for column in columns)
    sql = f"UPDATE {relation.name} SET {assigned} WHERE {where}{returning}"
    return Statement(sql, [*given, *parameters])


@st.composite
def upserts(draw, relation, columns):
    """An INSERT of a whole row with ON CONFLICT; DO UPDATE takes the `columns` that are given."""
    marks = ", ".join("?" * len(relation.columns))
    target = f"({', '.join(relation.primary_key)})"
    pairs = ", ".join(f"{column.name} = excluded.{column.name}" for column in columns)
    where = draw(st.sampled_from(["", f" WHERE {relation.name}.{columns[0].name} IS NOT NULL"]))
    nothing = draw(st.sampled_from([target, ""]))
    action = draw(
        st.sampled_from([f"{target} DO UPDATE SET {pairs}{where}", f"{nothing} DO NOTHING"])
    )
    returning = draw(st.sampled_from(["", " RETURNING *"]))
    return f"INSERT INTO {relation.name} VALUES ({marks}) ON CONFLICT {action}{returning}"


@settings(max_examples=depth(5, long=10))
@given(st.data())
def test_short_writes_of_any_schema_commit_what_the_general_path_commits(data):
    catalog, rows = data.draw(worlds())
    schema = visible(catalog.schema)
    late = data.draw(st.booleans())
    drawn = writes_by_key(schema, rows)
    assume(any(each.primary_key for each in schema.relations))
    statements = data.draw(st.lists(drawn, min_size=6, max_size=14))

    async def begun(database):
        await begin(database, catalog, rows, late)

    asyncio.run(both(begun, statements))


WIDE_DDL = """
CREATE TABLE wide (
  id BIGINT PRIMARY KEY, tag INTERVAL,
  at TIMESTAMP DEFAULT TIMESTAMP '2026-01-01 00:00:00',
  a INTEGER CHECK (a < 100), b INTEGER NOT NULL DEFAULT 7,
  c INTEGER GENERATED ALWAYS AS (a + b) STORED, code VARCHAR(4), price DECIMAL(8,2), x DOUBLE);
CREATE UNIQUE INDEX by_code ON wide (code) WHERE a > 0;
CREATE INDEX by_sum ON wide ((a + b));
CREATE INDEX by_quotient ON wide ((100 / a)) WHERE b > 50;
CREATE INDEX by_price ON wide (price) INCLUDE (x);
INSERT INTO wide (id, tag, a, code, price, x) VALUES
  (1, INTERVAL '1 day', 1, 'x', 1.5, 5), (2, NULL, 2, 'y', 2.5, 1), (3, NULL, 0, 'x', NULL, 2),
  (4, NULL, 9, NULL, 3, 3), (5, NULL, NULL, 'z', 4, 4), (6, NULL, 6, 'w', 6, 6);
"""
WIDE = (
    ("UPDATE wide SET price = ? WHERE id = ?", ("9.995", 1)),
    ("UPDATE wide SET price = ? WHERE id = ?", ("9.995", "1")),
    ("UPDATE wide SET price = ? WHERE id = ?", ("9.99", 2.0)),
    ("UPDATE wide SET price = ? WHERE id = ?", ("9.99", 2.5)),
    ("UPDATE wide SET price = ? WHERE id = ?", ("9.99", None)),
    ("UPDATE wide SET price = ? WHERE id = ?", ("nine", 2)),
    ("UPDATE wide SET price = ? WHERE id = ?", (1,)),
    ("UPDATE wide SET price = ? WHERE id = ?", (1, 77)),
    (
        "UPDATE wide SET a = :a, b = b + 1 WHERE id = :id RETURNING a, b, c",
        {"a": 5, "id": 1},
    ),
    ("UPDATE wide SET a = a + ?, price = price * ? WHERE id = ?", (2, Decimal("1.5"), 1)),
    ("UPDATE wide SET price = coalesce(?, price) WHERE id = ? RETURNING price + ?", (None, 1, 1)),
    ("UPDATE wide SET b = b - ? WHERE id = ? AND b - ? > 0", (3, 1, 3)),
    ("UPDATE wide SET at = at + ? WHERE id = ?", (timedelta(hours=1), 1)),
    ("UPDATE wide SET price = price * ? WHERE id = ?", (Decimal("1E+8"), 1)),
    ("UPDATE wide SET a = 100 WHERE id = 1", ()),
    ("UPDATE wide SET a = NULL, b = NULL WHERE id = 1", ()),
    ("UPDATE wide SET a = 10, b = 60 WHERE id = 1", ()),
    ("UPDATE wide SET a = 0 WHERE id = 1", ()),
    ("UPDATE wide SET b = 60 WHERE id = 3", ()),
    ("UPDATE wide SET b = 2147483647, a = 50 WHERE id = 2", ()),
    ("UPDATE wide SET a = b / 0 WHERE id = 2", ()),
    ("UPDATE wide SET a = 3 WHERE id = 2 RETURNING 1 / (a - 3)", ()),
    ("UPDATE wide SET a = 4 WHERE id = 2 AND code = 'y' RETURNING *", ()),
    ("UPDATE wide SET a = 4 WHERE id = 2 AND code = 'x' RETURNING *", ()),
    ("UPDATE wide SET a = 4 WHERE id = 2 AND 1 / (a - 4) > 0", ()),
    ("UPDATE wide SET code = 'x' WHERE id = 2", ()),
    ("UPDATE wide SET code = 'v', price = 1 WHERE id = 2", ()),
    ("UPDATE wide SET code = 'long text' WHERE id = 2", ()),
    ("UPDATE wide SET code = ? WHERE id = 2", ("\ud800",)),
    ("UPDATE wide SET b = DEFAULT, at = DEFAULT WHERE id = 2", ()),
    ("UPDATE wide SET c = DEFAULT WHERE id = 2", ()),
    ("UPDATE wide SET at = now() WHERE id = 2", ()),
    ("UPDATE wide SET tag = INTERVAL '24 hours' WHERE id = 1", ()),
    ("UPDATE wide SET tag = INTERVAL '24 hours' WHERE id = 1", ()),
    ("UPDATE wide SET x = x WHERE id = 1 RETURNING id", ()),
    ("UPDATE wide SET x = x, price = 10.00 WHERE id = 1", ()),
    ("UPDATE wide SET x = (SELECT max(a) FROM wide) WHERE id = 1", ()),
    ("UPDATE wide SET id = 1, x = 3 WHERE id = 1", ()),
    ("UPDATE wide SET id = 40 WHERE id = 4", ()),
    ("DELETE FROM wide WHERE id = ? AND a = ? RETURNING id, code", (4, 9)),
    ("DELETE FROM wide WHERE id = ? AND a = ? RETURNING id, code", (40, 8)),
    ("DELETE FROM wide WHERE id = 40 RETURNING id, code", ()),
    ("DELETE FROM wide WHERE id = 40 RETURNING id, code", ()),
    ("DELETE FROM wide WHERE id = 5 RETURNING 1 / (id - 5)", ()),
    ("DELETE FROM wide WHERE id = 5 AND id = 5", ()),
    ("DELETE FROM wide WHERE id = ?", (3,)),
    ("DELETE FROM wide WHERE id = 6 RETURNING *", ()),
    ("DELETE FROM wide WHERE id = ?", (3, 4)),
    *(
        (f"INSERT INTO wide (id, a, code, price) VALUES (?, ?, ?, ?) ON CONFLICT {action}", given)
        for given in ((1, 1, "new", 1), (1, 2, "x", 2), (90, 3, "y", 3), (1, 100, "q", 4))
        for action in (
            "(id) DO NOTHING",
            "DO NOTHING RETURNING id",
            "(id) DO UPDATE SET price = wide.price + excluded.price, b = 8 RETURNING *",
            "(id) DO UPDATE SET code = excluded.code WHERE wide.a > excluded.a",
            "(id) DO UPDATE SET a = excluded.a, b = DEFAULT",
            "(id) DO UPDATE SET b = (SELECT max(a) FROM wide)",
            "(id) DO UPDATE SET id = excluded.id + 1",
            "(id) DO UPDATE SET a = excluded.a + 90",
            "(code) WHERE a > 0 DO UPDATE SET price = excluded.price",
        )
    ),
)


async def applied(database, ddl):
    request = PlanRequest(ddl)
    await database.apply_schema(request, database.plan_schema(request).plan_id)
    await database.keeper.wait_built()


async def test_short_writes_compute_and_check_rows_as_the_general_path_does():
    async def begun(database):
        ddl, insert = WIDE_DDL.split("INSERT", 1)
        await applied(database, ddl)
        await database.execute("INSERT" + insert.rstrip().rstrip(";"))

    statements = [Statement(sql, parameters) for sql, parameters in WIDE]
    assert await both(begun, statements) >= 25


SHOP = (
    "INSERT INTO customer VALUES (1, 'Ada', 10, 'a@x'), (2, 'Bob', 20, NULL), (3, 'Eve', 1, 'e@x')",
    "INSERT INTO product VALUES (5, 'pen', 3), (6, 'ink', 3)",
    "INSERT INTO orders VALUES (10, 1, 5.5), (11, NULL, 5.5), (12, 2, 1), (13, 2, 1)",
    "INSERT INTO line VALUES (10, 1, 5, 2), (10, 2, 5, 2), (11, 1, 5, 2), (12, 1, NULL, 2)",
    "INSERT INTO gift VALUES (1, 10, 1, 'bow'), (2, NULL, NULL, 'bow'), (3, 11, 1, 'bow')",
    "INSERT INTO employee VALUES (1, 1, 'own boss'), (2, 1, 'clerk')",
)
CHANGES = (
    "UPDATE customer SET c_name = 'Ann' WHERE c_id = 1",
    "UPDATE customer SET c_balance = c_balance + 1 WHERE c_id = 3",
    "UPDATE customer SET c_email = 'a@x' WHERE c_id = 2",
    "UPDATE customer SET c_email = 'b@x', c_name = 'Ben' WHERE c_id = 2",
    "UPDATE customer SET c_id = 4 WHERE c_id = 3",
    "UPDATE customer SET c_id = 5 WHERE c_id = 1",
    "UPDATE product SET p_stock = p_stock - 1 WHERE p_id = 5",
    "UPDATE product SET p_stock = p_stock - 1 WHERE p_id = 7",
    "UPDATE orders SET o_total = 7 WHERE o_id = 10",
    "UPDATE orders SET o_total = 7 WHERE o_id = 11",
    "UPDATE orders SET o_total = 8, o_c_id = 1 WHERE o_id = 10",
    "UPDATE orders SET o_c_id = 2 WHERE o_id = 10",
    "UPDATE orders SET o_c_id = 9 WHERE o_id = 10",
    "UPDATE orders SET o_c_id = NULL WHERE o_id = 12",
    "UPDATE line SET l_quantity = 9 WHERE l_o_id = 10 AND l_no = 1",
    "UPDATE line SET l_quantity = 9 WHERE l_o_id = 11 AND l_no = 1",
    "UPDATE line SET l_p_id = 6 WHERE l_o_id = 10 AND l_no = 1",
    "UPDATE line SET l_p_id = 7 WHERE l_o_id = 10 AND l_no = 1",
    "UPDATE line SET l_p_id = 5, l_quantity = 1 WHERE l_o_id = 10 AND l_no = 2",
    "UPDATE gift SET g_text = 'box' WHERE g_id = 1",
    "UPDATE gift SET g_text = 'box' WHERE g_id = 2",
    "UPDATE gift SET g_text = 'box' WHERE g_id = 3",
    "UPDATE employee SET e_name = 'boss' WHERE e_id = 1",
    "INSERT INTO customer VALUES (3, 'Eva', 2, NULL) ON CONFLICT (c_id) DO NOTHING",
    "INSERT INTO customer VALUES (7, 'Ira', 2, 'e@x') ON CONFLICT (c_id) DO NOTHING",
    "INSERT INTO customer VALUES (7, 'Ira', 2, 'e@x') ON CONFLICT DO NOTHING",
    "INSERT INTO orders VALUES (13, 1, 4) ON CONFLICT (o_id)"
    " DO UPDATE SET o_total = excluded.o_total",
    "INSERT INTO orders VALUES (13, 1, 4) ON CONFLICT (o_id)"
    " DO UPDATE SET o_c_id = excluded.o_c_id",
    "INSERT INTO orders VALUES (14, 1, 4) ON CONFLICT (o_id) DO UPDATE SET o_total = 1",
    "INSERT INTO orders VALUES (15, 9, 4) ON CONFLICT (o_id) DO UPDATE SET o_total = 1",
    "INSERT INTO line VALUES (10, 2, 6, 1) ON CONFLICT (l_o_id, l_no)"
    " DO UPDATE SET l_quantity = line.l_quantity + 1 RETURNING l_quantity",
    "INSERT INTO line VALUES (10, 3, 6, 1) ON CONFLICT (l_o_id, l_no)"
    " DO UPDATE SET l_quantity = line.l_quantity + 1 RETURNING l_quantity",
    "INSERT INTO line VALUES (10, 3, 6, 1) ON CONFLICT DO NOTHING RETURNING l_quantity",
    "INSERT INTO line VALUES (99, 3, 6, 1) ON CONFLICT DO NOTHING RETURNING l_quantity",
    "DELETE FROM product WHERE p_id = 5",
    "DELETE FROM product WHERE p_id = 8",
    "DELETE FROM gift WHERE g_id = 2",
    "DELETE FROM gift WHERE g_id = 3",
    "DELETE FROM line WHERE l_o_id = 10 AND l_no = 1",
    "DELETE FROM line WHERE l_o_id = 12 AND l_no = 1",
    "DELETE FROM orders WHERE o_id = 10",
    "DELETE FROM orders WHERE o_id = 13",
    "DELETE FROM orders WHERE o_id = 12",
    "DELETE FROM customer WHERE c_id = 2",
    "DELETE FROM customer WHERE c_id = 4",
    "DELETE FROM employee WHERE e_id = 2",
    "DELETE FROM employee WHERE e_id = 1",
)


async def test_short_writes_below_and_above_others_take_the_locks_of_the_general_path():
    async def begun(database):
        await database.keeper.apply(shop())
        await database.keeper.wait_built()
        for sql in SHOP:
            await database.execute(sql)

    assert await both(begun, [Statement(sql) for sql in CHANGES]) >= 20
