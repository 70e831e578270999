"""SQLAlchemy and Alembic with schemas: tables, keys, sequences and reflection across schemas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata, produce_migrations
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.operations.ops import ModifyTableOps

import hornbeam.alembic
from tests.client import client_world


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = sa.create_engine(client_world.embedded(tmp_path / "db"))
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema("shop"))
        connection.execute(sa.schema.CreateSchema("stock", if_not_exists=True))
        connection.execute(sa.schema.CreateSchema("stock", if_not_exists=True))
    yield engine
    engine.dispose()


def _tables() -> sa.MetaData:
    """A table of the same name in two schemas, and foreign keys among them."""
    metadata = sa.MetaData(schema="shop")
    sa.Table(
        "item",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(20), index=True, unique=True),
    )
    plain = sa.Table(
        "plain",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("item", sa.Integer, sa.ForeignKey("shop.item.id")),
        schema=sa.schema.BLANK_SCHEMA,
    )
    sa.Table(
        "item",
        metadata,
        sa.Column("id", sa.Integer, sa.ForeignKey("shop.item.id"), primary_key=True),
        sa.Column("plain", sa.Integer, sa.ForeignKey(plain.c.id), index=True),
        sa.Column("amount", sa.Integer, sa.CheckConstraint("amount > 0", name="some")),
        schema="stock",
    )
    return metadata


def test_tables_of_schemas_are_created_written_and_read(engine: sa.Engine) -> None:
    metadata = _tables()
    metadata.create_all(engine)
    metadata.create_all(engine)
    item, stock = metadata.tables["shop.item"], metadata.tables["stock.item"]
    with engine.begin() as connection:
        made = connection.execute(sa.insert(item).values(name="pen").returning(item.c.id)).scalar()
        connection.execute(sa.insert(stock).values(id=made, amount=3))
        connection.execute(sa.update(stock).where(stock.c.id == made).values(amount=4))
        both = sa.select(item.c.name, stock.c.amount).join(stock, stock.c.id == item.c.id)
        assert connection.execute(both).all() == [("pen", 4)]
        moved = connection.execution_options(schema_translate_map={"shop": "stock"})
        assert moved.execute(sa.select(sa.func.count()).select_from(item)).scalar() == 1
        connection.execute(sa.delete(stock).where(stock.c.id == made))
    metadata.drop_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.schema.DropSchema("shop"))
        assert not sa.inspect(connection).has_schema("shop")


def test_schemas_are_reflected(engine: sa.Engine) -> None:
    _tables().create_all(engine)
    inspector = sa.inspect(engine)
    assert inspector.default_schema_name == "public"
    assert inspector.get_schema_names() == ["public", "shop", "stock"]
    assert [inspector.has_schema(name) for name in ("shop", "none")] == [True, False]
    assert [inspector.get_table_names(s) for s in (None, "public", "shop", "none")] == [
        ["plain"],
        ["plain"],
        ["item"],
        [],
    ]
    assert inspector.has_table("item", "stock")
    assert not inspector.has_table("item")
    assert not inspector.has_table("stock.item")
    assert [each["name"] for each in inspector.get_columns("item", "stock")] == [
        "id",
        "plain",
        "amount",
    ]
    found = {
        key["constrained_columns"][0]: (key["referred_schema"], key["referred_table"])
        for key in inspector.get_foreign_keys("item", "stock")
    }
    assert found == {"id": ("shop", "item"), "plain": (None, "plain")}
    (key,) = inspector.get_foreign_keys("plain")
    assert (key["referred_schema"], key["referred_table"]) == ("shop", "item")
    assert [i["name"] for i in inspector.get_indexes("item", "stock")] == ["ix_stock_item_plain"]
    reflected = sa.MetaData()
    sa.Table("item", reflected, schema="stock", autoload_with=engine)
    assert sorted(reflected.tables) == ["plain", "shop.item", "stock.item"]


def test_a_search_path_is_the_default_schema(engine: sa.Engine) -> None:
    _tables().create_all(engine)
    url = engine.url.update_query_dict({"search_path": "stock,public"})
    engine.dispose()
    other = sa.create_engine(url)
    inspector = sa.inspect(other)
    assert inspector.default_schema_name == "stock"
    assert inspector.get_table_names() == ["plain", "item"]
    assert "amount" in {each["name"] for each in inspector.get_columns("item")}
    (key,) = (k for k in inspector.get_foreign_keys("item") if k["referred_table"] == "item")
    assert key["referred_schema"] == "shop"
    other.dispose()


def test_a_sequence_of_a_schema_numbers_rows(engine: sa.Engine) -> None:
    metadata = sa.MetaData()
    numbers = sa.Sequence("numbers", start=7, schema="shop", metadata=metadata)
    table = sa.Table(
        "bill",
        metadata,
        sa.Column("id", sa.Integer, numbers, server_default=numbers.next_value(), primary_key=True),
        sa.Column("note", sa.Text),
        schema="stock",
    )
    metadata.create_all(engine)
    inspector = sa.inspect(engine)
    assert inspector.get_sequence_names("shop") == ["numbers"]
    assert inspector.get_sequence_names() == []
    assert inspector.has_sequence("numbers", "shop")
    with engine.begin() as connection:
        first = connection.execute(sa.insert(table).values(note="a")).inserted_primary_key
        assert tuple(first or ()) == (7,)
        assert connection.scalar(numbers) == 8
    metadata.drop_all(engine)


def _context(connection: sa.Connection) -> MigrationContext:
    return MigrationContext.configure(connection, opts={"include_schemas": True})


def test_alembic_migrates_schemas(engine: sa.Engine) -> None:
    metadata = _tables()
    with engine.connect() as connection:
        context = _context(connection)
        assert isinstance(context.impl, hornbeam.alembic.HornbeamImpl)
        script = produce_migrations(context, metadata)
        assert script.upgrade_ops is not None
        operations = Operations(context)
        for operation in script.upgrade_ops.ops:
            for each in operation.ops if isinstance(operation, ModifyTableOps) else [operation]:
                operations.invoke(each)
        connection.commit()
    with engine.connect() as connection:
        assert compare_metadata(_context(connection), metadata) == []
        changed = _tables()
        changed.tables["stock.item"].append_column(sa.Column("note", sa.Text))
        (difference,) = compare_metadata(_context(connection), changed)
        assert (difference[0], difference[1], difference[2]) == ("add_column", "stock", "item")
