"""Writes that differ only in literals share a plan, which is the plan of each of them."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.txlayer.statements.shared_writes import SHAPES, SharedWrites
from hornbeam_server.txlayer.statements.write_compiler import compile_write
from hornbeam_server.txlayer.statements.write_plans import ByKey, InsertPlan, UpdatePlan
from hornbeam_server.txlayer.transactions import compiled_catalog
from tests.depth import depth
from tests.txlayer.database_world import catalog_of, opened

TYPES = {
    "a": "INTEGER",
    "b": "BIGINT",
    "c": "SMALLINT",
    "d": "DECIMAL(5,2)",
    "e": "TEXT",
    "f": "VARCHAR(3)",
    "g": "BOOLEAN",
    "h": "DATE",
    "i": "TIMESTAMP",
    "j": "TIMESTAMP WITH TIME ZONE",
    "k": "DOUBLE",
    "l": "REAL",
    "m": "UUID",
    "n": "BYTEA",
    "o": "JSON",
    "p": "CHAR(2)",
    "q": "INTEGER[]",
}
KEYS = ("a", "b", "d", "e", "f", "h", "j", "m")
DDL = "".join(
    f"CREATE TABLE by_{key} ("
    + ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    + f", PRIMARY KEY ({key}));"
    for key in KEYS
)
LITERALS = [
    *("0", "1", "5", "007", "300", "7001", "32768", "2147483648", "9223372036854775807"),
    *("9223372036854775808", "123456789012345678", "1234567890123456789012345678901234567890"),
    *("1.5", "2.55", "2.545", "7001.5", "0.0", "1.00", "99999.99", "1234567890123456.789"),
    *("''", "'a'", "'abc'", "'abcd'", "'ab '", "'it''s'", "'5'", "' 5 '", "'1.5'", "'x y'"),
    *("'true'", "'t'", "'2024-01-31'", "'2024-02-30'", "'2024-01-31 10:00:00'", "'now'"),
    *("'today'", "'infinity'", "'2024-01-31T10:00:00+02:00'", "'NaN'", "'1e3'", "'{1,2}'"),
    *("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'xa'", "'{\"a\": 1}'", "'null'", "'7001'"),
]
OTHERS = ["NULL", "TRUE", "DEFAULT", "1 + 1", "-5", "CAST('5' AS INTEGER)", "DATE '2024-01-31'"]
OTHERS += ["CAST(1.5 AS DECIMAL(10,2))", "CAST('a' AS VARCHAR(5))", "repeat('a', 3)"]

literals = st.sampled_from(LITERALS)
values = st.one_of(literals, literals, literals, st.sampled_from(OTHERS))


@st.composite
def writes(draw) -> str:
    """A statement with `{}` for each value, and two lists of values of the same kinds."""
    key = draw(st.sampled_from(KEYS))
    columns = draw(st.lists(st.sampled_from([*TYPES]), min_size=1, max_size=4, unique=True))
    match draw(st.sampled_from(["insert", "update", "delete"])):
        case "insert":
            rows = draw(st.integers(1, 2))
            given = [draw(values) for _ in range(rows * len(columns))]
            row = "(" + ", ".join(["{}"] * len(columns)) + ")"
            text = f"INSERT INTO by_{key} ({', '.join(columns)}) VALUES " + ", ".join([row] * rows)
        case "update":
            given = [draw(values) for _ in columns] + [draw(literals)]
            pairs = ", ".join(f"{column} = {{}}" for column in columns)
            text = f"UPDATE by_{key} SET {pairs} WHERE {key} = {{}}"
        case _:
            given = [draw(literals)]
            text = f"DELETE FROM by_{key} WHERE {key} = {{}} AND k < 5"
    if draw(st.booleans()):
        text += " RETURNING a, 5"
    return text.format(*given)


def alike(sql: str) -> list[str]:
    """Other texts of the same shape, if there is one literal of each kind in it."""
    found = sql
    for old, new in (("'abc'", "'x'"), ("2.55", "3.25"), ("5", "6")):
        found = found.replace(old, new)
    return [sql, found]


def outcome(plan) -> object:
    """The values that a plan has without reading rows, or its error."""
    try:
        if isinstance(plan, InsertPlan):
            return "insert", list(plan.given(())), plan.conflict is None
        where = plan.find.values(()) if isinstance(plan.find, ByKey) else "search"
        assigned = []
        if isinstance(plan, UpdatePlan):
            row = (None,) * len(TYPES)
            assigned = [
                (a.position, a.value(row, ())) for a in plan.assignments if hasattr(a, "value")
            ]
        return where, assigned
    except HornbeamError as error:
        return type(error), error.message


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A catalog, its engine, and templates that all examples share."""
    with asyncio.Runner() as runner:
        opening = opened(tmp_path_factory.mktemp("shared"), catalog_of(load_ddl(DDL)))
        database = runner.run(opening.__aenter__())
        state = database.manager.state

        def compiled(sql):
            return compile_write(sql, state.catalog, state.engine)

        yield SharedWrites(compiled), compiled
        runner.run(opening.__aexit__(None, None, None))


@settings(
    max_examples=depth(130, long=400),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(writes())
@example("INSERT INTO by_a (a, b) VALUES (5, 5)")
@example("DELETE FROM by_a WHERE a = 2147483648 AND k < 5")
@example("UPDATE by_d SET d = 2.545, e = 5 WHERE d = 2.545")
@example("UPDATE by_h SET e = 'abc' WHERE h = '2024-01-31'")
@example("INSERT INTO by_a (i, n) VALUES ('now', 'xa')")
def test_the_shared_plan_is_the_own_plan(shared, sql):
    writes, compiled = shared
    for text in alike(sql) * 2:
        try:
            own = compiled(text)
        except HornbeamError:
            assert writes.plan(text) is None
            continue
        found = writes.plan(text)
        if found is not None:
            assert repr(outcome(found)) == repr(outcome(own))
            assert type(found) is type(own)
            assert found.relation is own.relation


@pytest.mark.parametrize(
    ("texts", "is_shared"),
    [
        (["INSERT INTO by_a (a, e) VALUES ({n}, 'x{n}')"], True),
        (["INSERT INTO by_a (a, e, d) VALUES ({n}, 'x', 1.5), (1{n}, NULL, 2.25)"], True),
        (["INSERT INTO by_a (a, h) VALUES ({n}, '2024-01-0{n}') RETURNING a, 5"], True),
        (["INSERT INTO by_a (a) VALUES ({n}) ON CONFLICT (a) DO UPDATE SET b = 5"], True),
        (["UPDATE by_a SET b = b + 1, e = 'x{n}' WHERE a = {n}"], True),
        (["DELETE FROM by_e WHERE e = 'x{n}'"], True),
        (["DELETE FROM by_a WHERE a = {n} AND b > 3"], True),
        (["INSERT INTO by_a (a, d) VALUES ({n}, CAST(1 AS DECIMAL(5,2)))"], True),
        (["INSERT INTO by_a (a) SELECT {n}"], False),
        (["UPDATE by_a SET b = 1 WHERE b = {n}"], False),
        (["DELETE FROM by_a WHERE a < {n}"], False),
        (["DELETE FROM by_a WHERE a = {n}.5"], False),
        (["INSERT INTO by_a (a) VALUES ({n}) -- comment"], False),
    ],
)
def test_which_writes_share_their_plan(shared, texts, is_shared):
    _, compiled = shared
    count = [0]

    def counted(sql):
        count[0] += 1
        return compiled(sql)

    writes = SharedWrites(counted)
    for n in range(1, 5):
        writes.plan(texts[0].format(n=n))
    before = count[0]
    found = [writes.plan(texts[0].format(n=n)) for n in range(5, 9)]
    assert all(found) == is_shared
    assert not is_shared or count[0] == before


async def test_writes_with_literals_are_compiled_a_few_times_and_write_their_values(
    tmp_path, monkeypatch
):
    count = [0]

    def counted(*given):
        count[0] += 1
        return compile_write(*given)

    monkeypatch.setattr(compiled_catalog, "compile_write", counted)
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        for n in range(20):
            await database.execute(f"INSERT INTO by_a (a, d, e) VALUES ({n}, {n}.25, 'it''s {n}')")
        for n in range(0, 20, 2):
            await database.execute(f"UPDATE by_a SET e = 'b{n}', b = {n} WHERE a = {n}")
        for n in range(1, 20, 4):
            await database.execute(f"DELETE FROM by_a WHERE a = {n}")
        rows = await database.fetch("SELECT a, b, d, e FROM by_a ORDER BY a")
        assert rows == [
            (n, n, Decimal(f"{n}.25"), f"b{n}")
            if n % 2 == 0
            else (n, None, Decimal(f"{n}.25"), f"it's {n}")
            for n in range(20)
            if n % 4 != 1
        ]
        with pytest.raises(HornbeamError, match="already"):
            await database.execute("INSERT INTO by_a (a, d, e) VALUES (2, 2.25, 'two')")
    assert count[0] <= 12


def test_few_shapes_are_kept(shared):
    writes = SharedWrites(shared[1])
    for n in range(SHAPES + 50):
        writes.plan(
            f"INSERT INTO by_a (a) VALUES (1) RETURNING a AS a{'x' * (n % 50)}_{'y' * (n // 50)}"
        )
    assert len(writes._seen) <= SHAPES
