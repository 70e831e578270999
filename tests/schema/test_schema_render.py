"""render_ddl and load_ddl are inverse, for any schema and any name."""

from dataclasses import replace

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.schema.build import SYSTEM_PREFIX
from hornbeam_server.schema.ddl import load_ddl, render_ddl
from hornbeam_server.schema.model import (
    SHORTEST_INTERVAL_S,
    Action,
    Column,
    DeclaredIndex,
    DeclaredView,
    DefaultKind,
    ForeignKey,
    KeyPart,
    Refresh,
    Relation,
    Schema,
)
from hornbeam_server.schema.types import MOMENTS, ColumnType, Kind
from tests.depth import depth
from tests.strategies import schemas

RESERVED = st.sampled_from(
    ["order", "user", "Group", "check", "select", "key", "date", "timestamp", "a b", "é", "x.y"]
)
NAMES = RESERVED | st.text(
    st.characters(exclude_categories=["C", "Z"]) | st.sampled_from("\"'"), min_size=1, max_size=6
).filter(lambda text: text.isprintable() and not text.startswith(SYSTEM_PREFIX))


@given(schemas(with_defaults=True))
def test_a_schema_survives_a_round_trip(schema: Schema) -> None:
    assert load_ddl(render_ddl(schema)) == schema


@given(
    st.floats(1e-9, 1e12),
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1),
    st.sampled_from(Refresh),
)
def test_a_view_survives_a_round_trip(interval_s: float, group: str, refresh: Refresh) -> None:
    view = DeclaredView("Group", "SELECT 1 -- one\n, 2", interval_s, group, refresh)
    if refresh in (Refresh.IMMEDIATE, Refresh.PLAIN):  # they have no batches
        view = DeclaredView(view.name, view.sql, refresh=refresh)
    if refresh is Refresh.LIVE:
        view = replace(view, interval_s=max(interval_s, SHORTEST_INTERVAL_S))
    schema = Schema((), (), (view, replace(view, name="v")))
    assert load_ddl(render_ddl(schema)) == schema


def test_keywords_of_sql_may_be_names() -> None:
    with duckdb.connect() as database:
        words = [word for (word, *_) in database.sql("FROM duckdb_keywords()").fetchall()]
    for word in words:
        columns = (
            Column(word, ColumnType(Kind.INTEGER), False),
            Column("other", ColumnType(Kind.INTEGER)),
        )
        key = ForeignKey(word, ("other",), word, (word,))
        index = DeclaredIndex(f"{word}_i", word, (KeyPart(word),), ("other",), True)
        schema = Schema((Relation(word, columns, (word,), (key,)),), (index,))
        assert load_ddl(render_ddl(schema)) == schema, word


@given(st.data())
def test_any_names_survive_a_round_trip(data: st.DataObject) -> None:
    schema = data.draw(schemas(with_defaults=True))
    names = {name for relation in schema.relations for name in relation.column_names}
    names |= {relation.name for relation in schema.relations}
    names |= {index.name for index in schema.indexes}
    fresh = data.draw(st.lists(NAMES, min_size=len(names), max_size=len(names), unique=True))
    renamed = rename(schema, dict(zip(sorted(names), fresh, strict=True)))
    assert load_ddl(render_ddl(renamed)) == renamed


def rename(schema: Schema, to: dict[str, str]) -> Schema:
    def many(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(to[name] for name in names)

    def relation(old: Relation) -> Relation:
        return Relation(
            to[old.name],
            tuple(replace(column, name=to[column.name]) for column in old.columns),
            many(old.primary_key),
            tuple(
                replace(
                    fk,
                    columns=many(fk.columns),
                    parent=to[fk.parent],
                    parent_columns=many(fk.parent_columns),
                )
                for fk in old.foreign_keys
            ),
        )

    return Schema(
        tuple(relation(old) for old in schema.relations),
        tuple(
            replace(
                index,
                name=to[index.name],
                relation=to[index.relation],
                columns=tuple(replace(part, column=to[part.column]) for part in index.columns),
                include=many(index.include),
            )
            for index in schema.indexes
        ),
        enumerations=schema.enumerations,
    )


@settings(max_examples=depth(8, long=20))
@given(schemas(with_defaults=True, on_delete=[Action.RESTRICT], with_indexes=False))
def test_duckdb_reads_the_rendered_ddl(schema: Schema) -> None:
    """DuckDB also stores the defaults with the intended values."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for enumeration in schema.enumerations:
            database.execute(render_ddl(Schema((), enumerations=(enumeration,))))
        for relation in schema.relations:
            plain = tuple(for_duckdb(column) for column in relation.columns)
            database.execute(render_ddl(Schema((replace(relation, columns=plain),))))
            for column in plain:
                if column.default is not None and column.default.kind is DefaultKind.LITERAL:
                    assert stored_default(database, relation, column.name) == column.default.value


def for_duckdb(column: Column) -> Column:
    """Remove identities and what has PostgreSQL's syntax: defaults of bytes, types of times, and
    arrays."""
    if column.type.kind in (Kind.INTERVAL, Kind.ARRAY, *MOMENTS):
        return replace(column, type=ColumnType(Kind.TEXT), default=None)
    identity = column.default is not None and column.default.kind is DefaultKind.IDENTITY
    without = identity or column.type.kind is Kind.BYTES
    return replace(column, default=None) if without else column


def stored_default(database, relation, name):  # type: ignore[no-untyped-def]
    """Return the default of a column as DuckDB evaluates it, coerced to the column's type."""
    (text, type_name), *_ = database.execute(
        "SELECT column_default, data_type FROM duckdb_columns() "
        "WHERE table_name = ? AND column_name = ?",
        [relation.name, name],
    ).fetchall()
    zoned = type_name == "TIMESTAMP WITH TIME ZONE"  # as text: fetching one needs another library
    cast = f"CAST(CAST({text} AS {type_name}) AS {'VARCHAR' if zoned else type_name})"
    (value,) = database.execute(f"SELECT {cast}").fetchone()
    return relation.column(name).type.coerce(value)


def test_names_are_quoted_only_when_necessary() -> None:
    text = 'CREATE TABLE "Order" (id INTEGER PRIMARY KEY, "user" TEXT, user_name TEXT)'
    rendered = render_ddl(load_ddl(text))
    assert rendered == (
        'CREATE TABLE "Order" (\n  id INTEGER NOT NULL,\n  "user" TEXT,\n  user_name TEXT,\n'
        "  PRIMARY KEY (id)\n);\n"
    )


@pytest.mark.parametrize("text", ["", "  \n-- nothing\n", ";;"])
def test_empty_text_is_the_empty_schema(text: str) -> None:
    assert load_ddl(text) == Schema(())
    assert render_ddl(Schema(())) == ""
