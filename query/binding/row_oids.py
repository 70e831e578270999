"""`tableoid`: the OID of the relation that a row is in, which is a constant, since a relation has
no partitions and no children."""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.query.system.objects import objects_of
from hornbeam_server.query.system.relations import is_internal
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.qualifying import is_of_cte
from hornbeam_server.schema.trees import nodes_of

_NAME = "tableoid"
_OTHERS = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax"})
_WRITES = (exp.Insert, exp.Update, exp.Delete)
_STATEMENTS = (exp.Select, *_WRITES)
_SHOWING = (exp.Select, exp.Returning)


def put_oids_of_rows(tree: exp.Expr, catalog: Catalog) -> None:
    """Put the OID of the relation in the place of each `tableoid` of a relation or materialised
    view. Those of an item of an outer join, and of several relations, stay."""
    for node in list(nodes_of(tree, exp.Column)):
        if node.name != _NAME:
            continue
        table = _table_of(node)
        oid = None if table is None else _oid(table, catalog)
        if oid is None:
            continue
        value = exp.cast(exp.Literal.number(oid), exp.DType.BIGINT)
        shown = isinstance(node.parent, _SHOWING) and node.arg_key == "expressions"
        node.replace(exp.alias_(value, _NAME) if shown else value)


def system_column(name: str, where: str) -> Unsupported | None:
    """The error for a column that each relation of PostgreSQL has and that is unknown here; None
    for another name."""
    if name == _NAME:
        return Unsupported(
            f"{_NAME} is known of a relation that FROM names alone or by its alias, and outside of"
            f" outer joins{where}.",
            cure="Write CAST('relation' AS REGCLASS).",
        )
    if name not in _OTHERS:
        return None
    return Unsupported(
        f"System column {name} is not supported{where}.",
        cure="Name a row by its primary key, and find a change of it by a column of your own.",
    )


def _table_of(column: exp.Column) -> exp.Table | None:
    """The table that has the column, if that is sure."""
    scope = column.find_ancestor(*_STATEMENTS)
    while scope is not None:
        items, outer = _items(scope)
        named = [each for each in items if column.table in ("", each.alias_or_name)]
        if named and not any(is_internal(each.name) for each in items):
            found = named[0] if len(named) == 1 and not outer else None
            return found if isinstance(found, exp.Table) and not is_of_cte(found) else None
        scope = scope.find_ancestor(*_STATEMENTS)
    return None


def _items(scope: exp.Expr) -> tuple[list[exp.Expr], bool]:
    """The items of FROM of a statement, or what it writes to; and whether it has an outer join."""
    from_, joins = scope.args.get("from_"), scope.args.get("joins") or []
    items = [from_.this] if from_ is not None else []
    items += [join.this for join in joins]
    if isinstance(scope, _WRITES):
        target = scope.this
        items.append(target.this if isinstance(target, exp.Schema) else target)
    joins = [*joins, *(join for each in items for join in each.args.get("joins") or ())]
    return items, any(join.side for join in joins)


def _oid(table: exp.Table, catalog: Catalog) -> int | None:
    """The OID of a relation or materialised view without a column of this name; None for others."""
    found = objects_of(catalog).by_name.get(table.name)
    if found is None or found.kind not in "rm":
        return None
    return None if any(each.name == _NAME for each in found.columns) else found.oid
