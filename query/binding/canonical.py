"""A SELECT in one spelling: two texts that mean the same by their names alone have the same form.

Names of tables give way to their places in FROM, every column is qualified, and conjuncts have one
order. Blanks, comments, quotes, `public.` and the case of words do not matter either.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Block
from hornbeam_server.query.binding.binder import bind_tree
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.trees import unlink


def canonical(tree: exp.Expr, sql: str, catalog: Catalog) -> str:
    """The form of a parsed SELECT, which cannot be used afterwards; `sql` is the text that its
    positions refer to. Raises the errors of `bind_tree`."""
    bound = bind_tree(tree, sql, catalog)
    try:
        blocks = bound.statement.blocks
        if len(blocks) == 1:  # else an alias may have several meanings
            _place(bound.ast, blocks[0])
        _order(bound.ast)
        return bound.ast.sql(identify=True, comments=False)
    finally:
        unlink(bound.ast)


def _place(tree: exp.Expr, block: Block) -> None:
    """Call the tables of the only block by their places, and qualify its columns."""
    places = {source.alias: f"s{i}" for i, source in enumerate(block.sources)}
    for table in list(tree.find_all(exp.Table)):
        place = places.get(table.alias_or_name)
        if place is not None:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(place)))
            table.set("db", None)
    for column in list(tree.find_all(exp.Column)):
        _qualify(column, places)


def _qualify(column: exp.Column, places: Mapping[str, str]) -> None:
    number, alias, name = column.meta.get("column", (None, "", ""))
    if number is None or alias not in places:
        return
    column.set("table", exp.to_identifier(places[alias]))
    column.set("this", exp.to_identifier(name))
    shown = column.parent
    if isinstance(shown, exp.Alias) and shown.alias == name:
        shown.replace(column)


def _order(tree: exp.Expr) -> None:
    """Give the conjuncts of each condition one order."""
    for clause in list(tree.find_all(exp.Where, exp.Having, exp.Join)):
        where = "on" if isinstance(clause, exp.Join) else "this"
        condition = clause.args.get(where)
        if isinstance(condition, exp.And):
            parts = sorted(condition.flatten(), key=lambda part: part.sql(identify=True))
            clause.set(where, exp.and_(*parts))
