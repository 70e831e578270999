"""Relations whose row type a statement names: `jsonb_populate_record(NULL::item, value)`.

The columns of such an item of FROM are those of the relation, although no row of it is read. So the
statement depends on the relation and its columns, and follows their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from hornbeam_server.query.dialect.jsonb_rows import ROW_TYPE
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.trees import nodes_of


def relations_of_types(tree: exp.Expr) -> set[str]:
    """The relations whose row types a bound statement names."""
    return {each.meta[ROW_TYPE] for each in _items(tree)}


def columns_of_types(tree: exp.Expr, schema: Schema) -> set[tuple[str, str]]:
    """The columns of these relations that a bound statement refers to, as (relation, column)."""
    meant: dict[tuple[str, str], tuple[str, str]] = {}
    for item in _items(tree):
        relation = item.meta[ROW_TYPE]
        columns = schema.relation(relation).visible_names
        given = [column.name for column in item.args["alias"].columns]
        names = [*given, *columns[len(given) :]]
        pairs = zip(names, columns, strict=False)  # a number of the row may follow
        meant.update({(item.alias, name): (relation, column) for name, column in pairs})
    return {meant[each] for each in _references(tree) if each in meant} if meant else set()


def relation_by_alias(tree: exp.Expr) -> Mapping[str, str]:
    """The relations of these items of FROM by their aliases, without those whose columns have other
    names."""
    named = (item for item in _items(tree) if not item.args["alias"].columns)
    return {item.alias: item.meta[ROW_TYPE] for item in named}


def _items(tree: exp.Expr) -> Iterator[exp.Expr]:
    return (node for node in nodes_of(tree, exp.Lateral) if ROW_TYPE in node.meta)


def _references(tree: exp.Expr) -> Iterator[tuple[str, str]]:
    """The items of FROM and the names of all columns that a statement refers to."""
    for node in tree.find_all(exp.Column, exp.Star):
        places = [node.meta["column"]] if "column" in node.meta else node.meta.get("columns", ())
        yield from ((place[1], place[2]) for place in places)
