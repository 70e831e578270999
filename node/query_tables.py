"""CREATE TABLE … AS: a table with the columns of a query, and the INSERT that fills it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from hornbeam_server.maintain.plain_views import plain_view
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.ddl import STATEMENT, render_ddl
from hornbeam_server.schema.ddl.scan import pieces
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.ddl.spaces import Spaces
from hornbeam_server.schema.ddl.statement import Statement, refuse_unread
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import PUBLIC, DeclaredView, Refresh
from hornbeam_server.schema.render import spelled
from hornbeam_server.schema.trees import unlink

_CURE = "Write CREATE TABLE [IF NOT EXISTS] name [(columns)] AS SELECT … [WITH NO DATA]."


@dataclass(frozen=True, slots=True)
class QueryTable:
    """The schema with the new table, as DDL, and the INSERT that fills it; "" for WITH NO DATA.
    `same`: the table exists already, and the statement has IF NOT EXISTS."""

    ddl: str
    insert: str
    same: bool = False


def creates_from_query(sql: str) -> bool:
    """Whether a statement is CREATE TABLE … AS. CREATE TABLE alone has AS in parentheses only."""
    found = list(pieces(sql, STATEMENT, Source.POSTGRES))
    if len(found) != 1 or found[0].words[:2] != ("CREATE", "TABLE"):
        return False
    return _statement(sql, Spaces()).has_query()


def query_table(sql: str, catalog: Catalog, path: Sequence[str] = (PUBLIC,)) -> QueryTable:
    """The table of CREATE TABLE … AS, under a search path. Its columns have the types of the
    query's columns. Raises SchemaError with the place in the statement, and the errors of the
    binder."""
    statement = _statement(sql, Spaces.of(catalog.schema, path))
    with_rows = statement.without_data()
    tree = with_rows.parse()
    try:
        if not isinstance(tree, exp.Create):
            refuse_unread(statement)
        statement.only(tree, {"this", "kind", "expression", "exists"}, _CURE)
        listed = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
        target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        name, names = statement.table(target), [each.text for each in statement.names(listed)]
        guarded = bool(tree.args.get("exists"))
        query = with_rows.query(tree.expression)
    finally:
        unlink(tree)
    if name.text in catalog.schema:
        if guarded:
            return QueryTable(render_ddl(catalog.schema), "", same=True)
        raise name.place.error(
            f"The table {name.text} exists already.", cure="Use another name.", name=name.text
        )
    declared = DeclaredView(name.text, query, refresh=Refresh.PLAIN)
    found = plain_view(declared, catalog, names).columns
    columns = [f"{identifier(column.name)} {column.type.ddl()}" for column in found]
    table = spelled(name.text, catalog.schema.spaces)
    created = f"CREATE TABLE {table} (\n  " + ",\n  ".join(columns) + "\n);\n"
    empty = [t.text.upper() for t in statement.tokens[-3:]] == ["WITH", "NO", "DATA"]
    called = ", ".join(identifier(column.name) for column in found)
    insert = f"INSERT INTO {table} ({called}) {query}"
    return QueryTable(render_ddl(catalog.schema) + created, "" if empty else insert)


def _statement(sql: str, spaces: Spaces) -> Statement:
    (found,) = pieces(sql, STATEMENT, Source.POSTGRES)
    return Statement.of(replace(found, spaces=spaces))
