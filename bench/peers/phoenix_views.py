"""Join views kept by the application, as Synergy does on Phoenix (MVCC-A). Pure.

What is to be done to the views when a statement writes a base relation, said in Phoenix's SQL, to
be run in the statement's transaction after it. As in Synergy, VII: an insert into a view's last
relation inserts the view's row, with what the other relations on the path hold; an update changes
all view rows that hold the row, which an index on the view finds; a delete deletes by key. Rows of
relations that are not a view's last have no view rows when they are inserted or deleted: foreign
keys restrict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from bench.peers.phoenix_sql import Said, key_values, said, type_name, written_out
from bench.peers.port import Cannot
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.schema.catalog import Catalog, Index, JoinView, Purpose
from hornbeam_server.schema.model import Column, KeyPart, Relation


def view_columns(view: JoinView, catalog: Catalog) -> list[Column]:
    relation = catalog.schema.relation
    return [
        Column(each.name, relation(each.relation).column(each.column).type) for each in view.columns
    ]


def view_key(view: JoinView, catalog: Catalog) -> list[str]:
    return [view.names[view.last, name] for name in catalog.schema.relation(view.last).primary_key]


def maintenance_indexes(catalog: Catalog) -> list[Index]:
    """From an ancestor's key to the view rows that hold it, where the workload updates any."""
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


def filled(view: JoinView, catalog: Catalog, schema: str) -> Said:
    """Its rows, in its columns' order, computed from the base relations."""
    return said(_select(view, ()), catalog, schema, use_views=False)


def upkeep(sql: str, catalog: Catalog, schema: str) -> tuple[Said, ...]:
    """What `sql` means for the views. Raises Cannot."""
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
) -> Said:
    given = dict(zip((c.name for c in tree.this.expressions), _row(tree), strict=True))
    select = said(_select(view, relation.primary_key), catalog, schema, use_views=False)
    key = [_number(given[name]) for name in relation.primary_key]
    names = ", ".join(column.name for column in view.columns)
    sql = f"UPSERT INTO {schema}.{view.name} ({names}) {select.sql}"
    return Said(sql, tuple(key[number] for number in select.values))


def _row(tree: exp.Insert) -> Sequence[exp.Expr]:
    match tree.expression:
        case exp.Values(expressions=[exp.Tuple(expressions=row)]):
            return row
    raise Cannot("The views are kept for inserts of one row.")


def _select(view: JoinView, key: Sequence[str]) -> str:
    """The view's rows, of one row of its last relation if its `key` is named; in our SQL."""
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
) -> Said:
    changes = {change.this.name: _number(change.expression) for change in tree.expressions}
    level = view.path.index(relation.name)
    if level and changes.keys() & set(view.edges[level - 1].columns):
        raise Cannot("A row that moves to another parent is not said in the views.")
    key = [_number(value) for value in key_values(tree, relation.primary_key)]
    of_view = view_key(view, catalog)
    names = ", ".join([*(view.names[relation.name, name] for name in changes), *of_view])
    into = f"UPSERT INTO {schema}.{view.name} ({names})"
    if relation.name == view.last:
        places = ", ".join("?" * (len(changes) + len(key)))
        return Said(f"{into} VALUES ({places})", (*changes.values(), *key))
    made = [f"CAST(? AS {type_name(relation.column(name).type)})" for name in changes]
    held = " AND ".join(f"{name} = ?" for name in _columns_of_key(view, relation))
    select = f"SELECT {', '.join([*made, *of_view])} FROM {schema}.{view.name} WHERE {held}"
    return Said(f"{into} {select}", (*changes.values(), *key))


def _deleted(tree: exp.Delete, view: JoinView, schema: str) -> Said:
    where = tree.args.get("where")
    if where is None or where.find(exp.Select):
        raise Cannot("The views are kept for deletes that say which rows by their columns.")
    condition = where.this.copy()
    for column in list(condition.find_all(exp.Column)):
        column.set("this", exp.to_identifier(view.names[view.last, column.name]))
        column.set("table", None)
    return written_out(condition, f"DELETE FROM {schema}.{view.name} WHERE ")


def _columns_of_key(view: JoinView, relation: Relation) -> Iterator[str]:
    return (view.names[relation.name, name] for name in relation.primary_key)


def _number(value: exp.Expr) -> int:
    """Of the statement's value that a parameter stands for."""
    if not isinstance(value, exp.Placeholder):
        raise Cannot("The views are kept for statements whose values are parameters.")
    return int(value.this) - 1
