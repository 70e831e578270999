"""Names with schemas in a parsed statement: `shop.item` becomes the full name of a relation, as one
identifier (`schema/namespaces.py`).

A relation without an alias gets its own name as the alias, so that `item.i_id` and `shop.item.i_id`
mean its column. If FROM has the same name from several schemas, one of them has its own name as the
alias, that of `public` if it is there, and the others have their full names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from sqlglot import exp

from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.model import DATABASE, PUBLIC
from hornbeam_server.schema.namespaces import SYSTEM_SCHEMAS, joined

SCHEMA = "schema"
"""Key in the meta of a table whose name has a schema: the name of the schema. In the meta of a
column: where the schema and the name of its relation begin and end in the text."""
_SCOPES = (exp.Select, exp.Update, exp.Delete, exp.Merge, exp.Insert)


def join_names(nodes: Sequence[exp.Expr], sql: str) -> None:
    """Replace names with schemas by full names. `nodes` are those of a statement. Raises
    Unsupported for a relation of another database, and for one of `public` with the name of a CTE.
    The binder refuses columns whose schema stays."""
    tables = [n for n in nodes if isinstance(n, exp.Table) and isinstance(n.this, exp.Identifier)]
    columns = [n for n in nodes if isinstance(n, exp.Column) and n.args.get("db")]
    qualified = [table for table in tables if table.args.get("db")]
    if not qualified and not columns:
        return
    for table in qualified:
        _leave_database_out(table, sql)
    for column in columns:
        _leave_database_out(column, sql)
    ctes = {node.alias for node in nodes if isinstance(node, exp.CTE)}
    scopes: dict[int, list[exp.Table]] = {}
    for table in tables:
        scopes.setdefault(_scope(table), []).append(table)
    for table in qualified:
        _join_table(table, scopes[_scope(table)], sql, ctes)
    for column in columns:
        _free_name(column, scopes, nodes, sql)
    for column in columns:
        _join_column(column, scopes)


def _leave_database_out(node: exp.Table | exp.Column, sql: str) -> None:
    catalog = node.args.get("catalog")
    if catalog is not None and catalog.name == DATABASE:
        node.set("catalog", None)
    elif catalog is not None and isinstance(node, exp.Table):
        raise Unsupported(
            f"{_written(node)} is in another database{at(node, sql)}.",
            cure=f"Leave out the first part, or write {DATABASE}.",
        )


def _scope(node: exp.Expr) -> int:
    return id(node.find_ancestor(*_SCOPES))


def _join_table(table: exp.Table, tables: Sequence[exp.Table], sql: str, ctes: Set[str]) -> None:
    schema, name = table.db, table.name
    if schema in SYSTEM_SCHEMAS:
        return  # the binder knows their relations
    full = joined(schema, name)
    if full in ctes:
        raise Unsupported(
            f"{schema}.{name} has the name of a CTE{at(table, sql)}.",
            cure="Give the CTE another name, and leave out the schema.",
        )
    if schema != PUBLIC and not table.alias:
        same = [each for each in tables if _bare(each) == name and not _aliased(each)]
        if any(not each.db and SCHEMA not in each.meta and names_cte(each) for each in same):
            raise SqlError(
                f"Alias {name} is used twice in one FROM{at(table, sql)}: it is also a CTE.",
                cure=f"Give {schema}.{name} an alias of its own.",
            )
        first = next((each for each in same if _schema(each) == PUBLIC), same[0])
        if first is table and not isinstance(table.parent, exp.TruncateTable):
            alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
            table.meta[OWN_ALIAS] = True
            table.set("alias", alias)
    joined_name = exp.to_identifier(full, quoted=True)
    begins = {} if schema == PUBLIC else _start(table.args["db"])
    joined_name.meta.update({**table.this.meta, **begins})
    table.meta[SCHEMA] = schema
    table.set("this", joined_name)
    table.set("db", None)


def names_cte(table: exp.Table) -> bool:
    """Whether a WITH around the table may define its name."""
    node: exp.Expr | None = table
    while node is not None:
        with_ = node.args.get("with_")
        if with_ is not None and any(cte.alias == table.name for cte in with_.expressions):
            return True
        node = node.parent
    return False


OWN_ALIAS = "own_alias"
"""Key in the meta of a table whose alias is its own name."""


def _schema(table: exp.Table) -> str:
    return table.db or str(table.meta.get(SCHEMA, PUBLIC))


def _bare(table: exp.Table) -> str:
    """The name without the schema, also after it has become a full name."""
    schema = table.meta.get(SCHEMA, PUBLIC)
    return table.name if schema == PUBLIC else table.name.removeprefix(joined(schema, ""))


def _aliased(table: exp.Table) -> bool:
    return bool(table.alias) and OWN_ALIAS not in table.meta


def _span(first: exp.Expr, last: exp.Expr) -> tuple[int, int] | None:
    """Where the text of two nodes begins and ends."""
    written = "start" in first.meta and "end" in last.meta
    return (first.meta["start"], last.meta["end"] + 1) if written else None


def _start(node: exp.Expr) -> Mapping[str, object]:
    return {key: node.meta[key] for key in ("line", "col", "start") if key in node.meta}


def _join_column(column: exp.Column, scopes: Mapping[int, Sequence[exp.Table]]) -> None:
    """Let a column refer to its relation by the alias of the relation."""
    schema = column.args["db"].name
    if column.args.get("catalog"):
        return
    if schema == PUBLIC:
        column.set("db", None)
        return
    full = joined(schema, column.table)
    for node in _scopes_around(column):
        for table in scopes.get(id(node), ()):
            if (table.db, table.name) == (schema, column.table) and not table.alias:
                column.set("db", None)  # of a system relation
                return
            if table.name == full and not _aliased(table):
                span = _span(column.args["db"], column.args["table"])
                if OWN_ALIAS in table.meta and span is not None:
                    column.meta[SCHEMA] = span
                column.set("table", exp.to_identifier(table.alias_or_name, quoted=True))
                column.set("db", None)
                return


def _free_name(
    column: exp.Column, scopes: Mapping[int, Sequence[exp.Table]], nodes: Sequence[exp.Expr],
    sql: str,
) -> None:  # fmt: skip
    """Let the relation of a column, or one with the same alias in an inner SELECT, have its full
    name as the alias, so that the column does not refer to the inner one. Raises Unsupported if
    both aliases are written."""
    full = joined(column.args["db"].name, column.table)
    inner: exp.Table | None = None
    for node in _scopes_around(column):
        for table in scopes.get(id(node), ()):
            if table.name == full and not _aliased(table):
                if inner is None or inner.alias_or_name != table.alias_or_name:
                    return
                own = next((each for each in (inner, table) if OWN_ALIAS in each.meta), None)
                if own is None:
                    raise Unsupported(
                        f"An inner SELECT has the alias {inner.alias_or_name}, too"
                        f"{at(column, sql)}.",
                        cure="Give the relations aliases that differ.",
                    )
                _take_alias(own, scopes, nodes)
                return
            if inner is None and table.alias_or_name == column.table:
                inner = table


def _take_alias(
    table: exp.Table, scopes: Mapping[int, Sequence[exp.Table]], nodes: Sequence[exp.Expr]
) -> None:
    """Take the alias from a relation that has its own name as the alias. The columns that begin
    with it get the full name."""
    name = table.alias
    for column in nodes:
        if isinstance(column, exp.Column) and column.table == name and not column.args.get("db"):
            holders = (
                each
                for node in _scopes_around(column)
                for each in scopes.get(id(node), ())
                if each.alias_or_name == name
            )
            if next(holders, None) is table:
                full = exp.to_identifier(table.name, quoted=True)
                full.meta.update(column.args["table"].meta)
                column.set("table", full)
    table.set("alias", None)
    del table.meta[OWN_ALIAS]


def _scopes_around(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the statements and SELECTs around a node, the inner ones first."""
    around = node.find_ancestor(*_SCOPES)
    while around is not None:
        yield around
        around = around.find_ancestor(*_SCOPES)


def _written(node: exp.Table) -> str:
    return ".".join(part.name for part in node.parts)
