"""Planted damage of the store is found, classified, and repaired."""

from unittest.mock import ANY

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.schema.errors import Corruption, NotFound
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put
from tests.txlayer.database_world import check, settings
from tests.txlayer.test_plain_views import applied
from tests.txlayer.test_transactions_statements import on_full_shop

STORED = (
    "customer__orders",
    "customer__orders__line__gift",
    "customer__orders.by.c_name",
    "customer__orders__line.of.customer",
    "orders.by.o_c_id",
    "gift.by.g_o_id.g_no",
    "customer_c_email_key",
)


async def plant(database, name, *puts):
    table = database.catalog.layout(name).table
    await database.store.put({table: list(puts)}, database.watermark())


async def first_cell(database, name):
    table = database.catalog.layout(name).table
    async for cells in database.store.scan(table, b"", None, NEWEST):
        return cells[0]
    raise AssertionError(f"{name} is empty")


def with_other_key(layout, row):
    """The row under another key, which belongs to no base row."""
    values = list(row)
    for position in layout.key_positions:
        if isinstance(values[position], int):
            values[position] += 7_000
    return tuple(values)


def with_other_values(layout, row):
    """Another row under the same key; None if no text column is outside of the key."""
    for position, value in enumerate(row):
        if position not in layout.key_positions and isinstance(value, str):
            return (*row[:position], value + "!", *row[position + 1 :])
    return None


async def damage(database, name, kind):
    """Plant one damaged row; False if `name` cannot have this kind of damage."""
    codec = database.manager.state.codecs(name)
    cell = await first_cell(database, name)
    row = codec.decode(cell.value)
    match kind:
        case "missing":
            await plant(database, name, Put(cell.key, TOMBSTONE))
        case "extra":
            other = with_other_key(codec.layout, row)
            await plant(database, name, Put(codec.key(other), codec.encode(other)))
        case "different":
            other = with_other_values(codec.layout, row)
            if other is None:
                return False
            await plant(database, name, Put(cell.key, codec.encode(other)))
        case "misplaced":
            key = codec.key(with_other_key(codec.layout, row))
            await plant(database, name, Put(cell.key, TOMBSTONE), Put(key, cell.value))
        case "twice":
            key = codec.key(with_other_key(codec.layout, row))
            await plant(database, name, Put(key, cell.value))
    return True


@pytest.mark.parametrize("kind", ["missing", "extra", "different", "misplaced", "twice"])
async def test_damage_is_found_and_repaired(tmp_path, kind):
    async with on_full_shop(tmp_path) as database:
        planted = [name for name in STORED if await damage(database, name, kind)]
        assert planted
        report = await database.verify()
        found = {item.name: item for item in report.checked if item.differences}
        assert sorted(found) == sorted(planted)
        field = "misplaced" if kind == "twice" else kind
        for item in found.values():
            assert getattr(item, field) == 1, item
            assert item.keys
        mended = await database.verify(repair=True)
        assert all(item.repaired for item in mended.checked if item.differences)
        await check(database)


async def test_invalid_rows_and_keys_are_repaired(tmp_path):
    async with on_full_shop(tmp_path) as database:
        name = "customer__orders"
        cell = await first_cell(database, name)
        codec = database.manager.state.codecs(name)
        of_a_text = b"\x30a\x00\x01"
        strange = {
            cell.key: b"\x01\xc1",
            codec.key_of((9_999,)): b"no row",
            b"\xee\xee": cell.value,
            of_a_text: cell.value,
        }
        await plant(database, name, *(Put(*item) for item in strange.items()))
        with pytest.raises(Corruption):
            await database.verify()
        assert await database.repair(name, list(strange)) == len(strange)
        assert await first_cell(database, name) == cell._replace(ts=ANY)
        assert await database.repair(name, list(strange)) == 0
        await check(database)


async def test_only_views_and_indexes_are_repaired(tmp_path):
    async with on_full_shop(tmp_path) as database:
        for name in ("customer", "nothing"):
            with pytest.raises(NotFound):
                await database.repair(name, [b"\x15\x01"])


async def test_repair_goes_on_beside_writers(tmp_path):
    async with on_full_shop(tmp_path) as database:
        for name in STORED:
            await damage(database, name, "missing")
        for n in range(10):
            await database.execute(f"INSERT INTO orders VALUES ({200 + n}, 1, 1)")
        await database.verify(repair=True)
        await database.execute("UPDATE customer SET c_name = c_name || '?'")
        await check(database)


async def test_a_row_without_its_parent_is_found(tmp_path):
    async with on_full_shop(tmp_path) as database:
        codec = database.manager.state.codecs("product")
        (row,) = await database.fetch("SELECT * FROM product WHERE p_id = 1")
        await plant(database, "product", Put(codec.key(row), TOMBSTONE))
        report = await database.verify()
        assert [(i.kind, i.missing) for i in report.checked if i.differences] == [
            ("foreign key", 2)
        ]
        await database.execute("INSERT INTO product VALUES (1, 'pen', 5)")


async def test_rows_that_do_not_meet_a_check_are_named(tmp_path):
    async with await Database.open(settings(tmp_path)) as database:
        await applied(
            database,
            "CREATE DOMAIN size AS TEXT CHECK (VALUE IN ('S', 'M'));"
            "CREATE TABLE t (k INTEGER, s size, n INTEGER CONSTRAINT few CHECK (n < 9 OR n = 77),"
            ' "a b" TEXT NOT NULL, PRIMARY KEY (k, "a b"));',
        )
        await database.execute("INSERT INTO t VALUES (1, 'S', 1, 'x'), (2, NULL, NULL, 'y')")
        codec = database.manager.state.codecs("t")
        for row in [(3, "L", 77, "z"), (4, "M", 9, "v"), (5, "XL", 10, "w")]:
            await plant(database, "t", Put(codec.key(row), codec.encode(row)))
        report = await database.verify(repair=True)
        found = {item.name: (item.kind, item.rows, item.offending) for item in report.checked}
        assert found == {
            "t.few": ("CHECK", 5, ("(k = 4, a b = 'v')", "(k = 5, a b = 'w')")),
            "t.size_check of s": ("CHECK", 5, ("(k = 3, a b = 'z')", "(k = 5, a b = 'w')")),
        }
        assert report.differences == 4
        row = (6, "S", 1, None)
        await plant(database, "t", Put(codec.key((6, "S", 1, "q")), codec.encode(row)))
        with pytest.raises(Corruption, match="t cannot be decoded"):
            await database.verify()


async def test_progress_is_reported(tmp_path):
    async with on_full_shop(tmp_path) as database:
        seen = []
        await database.verify(progress=lambda name, done, total: seen.append((name, done, total)))
        names, done, totals = zip(*seen, strict=True)
        assert list(done) == sorted(done)
        assert done[-1] == totals[-1] == len(names) - 1
