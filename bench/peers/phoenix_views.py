"""Join views that the application maintains, as in Synergy on Phoenix (MVCC-A). Pure.

For a statement that writes a base relation, this module returns the statements of Phoenix that
maintain the views. They run after the statement, in its transaction. As in Synergy (VII), an insert
into a view's last relation inserts the view's row, with the values of the other relations on the
path. An update changes all view rows that hold the row; an index on the view finds them. A delete
deletes by key. Rows of other relations of a view have no view rows when they are inserted or
deleted, since foreign keys restrict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from bench.peers.phoenix_sql import PhoenixStatement, key_values, translated, type_name, written_out
from bench.peers.port import Cannot
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.schema.catalog import Catalog, Index, Purpose
from hornbeam_server.schema.model import Column, KeyPart, Relation
from hornbeam_server.schema.views import JoinView


def view_columns(view: JoinView, catalog: Catalog) -> list[Column]:
    relation = catalog.schema.relation
    return [
        Column(each.name, relation(each.relation).column(each.column).type) for each in view.columns
    ]


def view_key(view: JoinView, catalog: Catalog) -> list[str]:
    return [view.names[view.last, name] for name in catalog.schema.relation(view.last).primary_key]


def maintenance_indexes(catalog: Catalog) -> list[Index]:
    """Indexes from an ancestor's key to the view rows that hold it, if the workload updates the
    ancestor."""
    updated = {
        name
        for statement in catalog.workload
        if isinstance(tree := bind(statement.sql, catalog).ast, exp.Update)
        for name in (tree.this.name,)
    }
    return [
        Index(
            f"{view.name}__of_{name}",
            view.name,
            tuple(map(KeyPart, _columns_of_key(view, catalog.schema.relation(name)))),
            purpose=Purpose.MAINTENANCE,
        )
        for view in catalog.views
        for name in view.path[:-1]
        if name in updated
    ]


def filled(view: JoinView, catalog: Catalog, schema: str) -> PhoenixStatement:
    """A query of the view's rows, in column order, over the base relations."""
    return translated(_select(view, ()), catalog, schema, use_views=False)


def maintenance(sql: str, catalog: Catalog, schema: str) -> tuple[PhoenixStatement, ...]:
    """The statements that maintain the views after `sql`. Raises Cannot."""
    tree = bind(sql, catalog).ast
    match tree:
        case exp.Insert():
            relation = catalog.schema.relation(tree.this.this.name)
            return tuple(
                _inserted(tree, relation, view, catalog, schema)
                for view in catalog.views
                if view.last == relation.name
            )
        case exp.Update():
            relation = catalog.schema.relation(tree.this.name)
            held = (view for view in catalog.views if relation.name in view.path)
            return tuple(_updated(tree, relation, view, catalog, schema) for view in held)
        case exp.Delete():
            name = tree.this.name
            ends = (view for view in catalog.views if view.last == name)
            return tuple(_deleted(tree, view, schema) for view in ends)
    return ()


def _inserted(
    tree: exp.Insert, relation: Relation, view: JoinView, catalog: Catalog, schema: str
) -> PhoenixStatement:
    given = dict(zip((c.name for c in tree.this.expressions), _row(tree), strict=True))
    select = translated(_select(view, relation.primary_key), catalog, schema, use_views=False)
    key = [_number(given[name]) for name in relation.primary_key]
    names = ", ".join(column.name for column in view.columns)
    sql = f"UPSERT INTO {schema}.{view.name} ({names}) {select.sql}"
    return PhoenixStatement(sql, tuple(key[number] for number in select.values))


def _row(tree: exp.Insert) -> Sequence[exp.Expr]:
    match tree.expression:
        case exp.Values(expressions=[exp.Tuple(expressions=row)]):
            return row
    raise Cannot("The views are maintained only for inserts of one row.")


def _select(view: JoinView, key: Sequence[str]) -> str:
    """A query of the view's rows, in our SQL. With `key`, the primary key of the view's last
    relation, a query of one row."""
    columns = ", ".join(f"{each.relation}.{each.column}" for each in view.columns)
    conditions = [
        f"{child}.{column} = {edge.parent}.{of_parent}"
        for child, edge in zip(view.path[1:], view.edges, strict=True)
        for column, of_parent in zip(edge.columns, edge.parent_columns, strict=True)
    ]
    conditions += [f"{view.last}.{name} = ?" for name in key]
    return f"SELECT {columns} FROM {', '.join(view.path)} WHERE {' AND '.join(conditions)}"


def _updated(
    tree: exp.Update, relation: Relation, view: JoinView, catalog: Catalog, schema: str
) -> PhoenixStatement:
    changes = {change.this.name: _number(change.expression) for change in tree.expressions}
    level = view.path.index(relation.name)
    if level and changes.keys() & set(view.edges[level - 1].columns):
        raise Cannot("The views are not maintained for a row that moves to another parent.")
    key = [_number(value) for value in key_values(tree, relation.primary_key)]
    of_view = view_key(view, catalog)
    names = ", ".join([*(view.names[relation.name, name] for name in changes), *of_view])
    into = f"UPSERT INTO {schema}.{view.name} ({names})"
    if relation.name == view.last:
        places = ", ".join("?" * (len(changes) + len(key)))
        return PhoenixStatement(f"{into} VALUES ({places})", (*changes.values(), *key))
    values = [f"CAST(? AS {type_name(relation.column(name).type)})" for name in changes]
    held = " AND ".join(f"{name} = ?" for name in _columns_of_key(view, relation))
    select = f"SELECT {', '.join([*values, *of_view])} FROM {schema}.{view.name} WHERE {held}"
    return PhoenixStatement(f"{into} {select}", (*changes.values(), *key))


def _deleted(tree: exp.Delete, view: JoinView, schema: str) -> PhoenixStatement:
    where = tree.args.get("where")
    if where is None or where.find(exp.Select):
        raise Cannot("The views are maintained only for deletes with conditions on columns.")
    condition = where.this.copy()
    for column in list(condition.find_all(exp.Column)):
        column.set("this", exp.to_identifier(view.names[view.last, column.name]))
        column.set("table", None)
    return written_out(condition, f"DELETE FROM {schema}.{view.name} WHERE ")


def _columns_of_key(view: JoinView, relation: Relation) -> Iterator[str]:
    return (view.names[relation.name, name] for name in relation.primary_key)


def _number(value: exp.Expr) -> int:
    """The number, from 0, of the statement's value for a parameter."""
    if not isinstance(value, exp.Placeholder):
        raise Cannot("The views are maintained only if all values are parameters.")
    return int(value.this) - 1
