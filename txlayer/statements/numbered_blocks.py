"""Blocks below the outermost SELECT that take numbers from sequences.

Such a block is a step of its own: `WITH q AS (SELECT nextval('s') …) SELECT … FROM q`. It runs
before the rest, its rows take their numbers in their order, and it leaves them in a relation that
exists while the statement runs (`steps.WithRows`), as a part of a WITH that writes does. The rest
reads that relation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from sqlglot import exp

from hornbeam_server.query.binding.binder import OutputColumn
from hornbeam_server.query.binding.numbers_below import takes_numbers
from hornbeam_server.query.parsing.sequence_calls import calls_in
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import Column, Relation
from hornbeam_server.schema.trees import nodes_of, unlink
from hornbeam_server.schema.types import ColumnType, Kind
from hornbeam_server.txlayer.statements.write_queries import put_before

NUMBER = Column("number", ColumnType(Kind.BIGINT), nullable=False)
"""The key of a relation with the rows of a step: the number of the row."""
_DISTINCT = "distinct"
Replace = Callable[[exp.Select], exp.Expr]


def with_numbers_in_blocks(tree: exp.Expr) -> exp.Expr:
    """The statement in which numbers of LIMIT and OFFSET are taken by a subquery, and those of the
    conditions of inner joins in WHERE, so that lists and WHERE are the only places of numbers."""
    for select in list(tree.find_all(exp.Select)):
        for name, part in (("limit", "expression"), ("limit", "count"), ("offset", "expression")):
            clause = select.args.get(name)
            value = clause.args.get(part) if clause is not None else None
            if isinstance(value, exp.Expr) and calls_in(value):
                alone = exp.select(value.copy(), copy=False)
                value.replace(exp.Subquery(this=alone))
                unlink(value)
        _move_conditions(select)
    return _with_inner_distinct(tree)


def _move_conditions(select: exp.Select) -> None:
    """Move the conditions of joins that take numbers to WHERE, where all joins are inner ones."""
    joins = select.args.get("joins") or []
    if any(join.side or join.kind not in {"", "INNER", "CROSS"} for join in joins):
        return
    for join in joins:
        on = join.args.get("on")
        conjuncts = list(on.flatten()) if isinstance(on, exp.And) else [on] if on else []
        taking = [each for each in conjuncts if calls_in(each)]
        if not taking:
            continue
        left = [each.copy() for each in conjuncts if all(each is not one for one in taking)]
        join.set("on", exp.and_(*left, copy=False) if left else exp.true())
        select.where(*(each.copy() for each in taking), copy=False)
        unlink(on)


def _with_inner_distinct(tree: exp.Expr) -> exp.Expr:
    """The statement in which the list of each SELECT DISTINCT that takes numbers is that of a block
    below it: DISTINCT compares the numbers, too."""
    for select in [each for each in tree.find_all(exp.Select) if _is_distinct(each)]:
        outer = exp.select(exp.Star(), copy=False).distinct(copy=False)
        for name in ("order", "limit", "offset", "with_"):
            outer.set(name, select.args.get(name))
            select.set(name, None)
        select.set("distinct", None)
        if select is tree:
            tree = outer
        else:
            select.replace(outer)
        alias = exp.TableAlias(this=exp.to_identifier(_DISTINCT, quoted=True))
        outer.set("from_", exp.From(this=exp.Subquery(this=select, alias=alias)))
    return tree


def _is_distinct(select: exp.Select) -> bool:
    distinct = select.args.get("distinct")
    if distinct is None or distinct.args.get("on"):
        return False
    return isinstance(select, exp.Select) and any(map(calls_in, select.expressions))


def replace_blocks(
    tree: exp.Expr, replace: Replace, around: Iterable[exp.Expr] = (), kept: exp.Expr | None = None
) -> None:
    """Replace each block below `tree` that takes numbers by the query that `replace` gives for it:
    inner blocks and parts of WITH first. `replace` gets a copy of the block that has the parts of
    the statement's WITH before it: `around`, and those of `tree`. A part that nothing names is left
    out: it does not run. Nothing is replaced in `kept`, a child of `tree`."""
    known = list(around)
    with_ = tree.args.get("with_")
    recursive = with_ is not None and with_.args.get("recursive")
    for cte in list(with_.expressions) if with_ is not None and not recursive else ():
        if is_left_out(tree, cte):
            cte.pop()
            unlink(cte)
            continue
        replace_below(cte, known, replace)
        known.append(cte)
    if with_ is not None and not with_.expressions:
        tree.set("with_", None)
    for name, part in list(tree.args.items()):
        for each in part if isinstance(part, list) else [part]:
            if name != "with_" and isinstance(each, exp.Expr) and each is not kept:
                replace_below(each, known, replace)


def is_left_out(tree: exp.Expr, cte: exp.Expr) -> bool:
    """Is this a query in the statement's WITH that takes numbers, and does not run?"""
    if not isinstance(cte.this, exp.Query) or _is_named(tree, cte):
        return False
    return any(map(takes_numbers, cte.walk()))


def replace_below(node: exp.Expr, known: Sequence[exp.Expr], replace: Replace) -> None:
    """Replace the blocks at `node` and below it."""
    for block in _blocks(node):
        alone = block.copy()
        if known:
            put_before(exp.With(expressions=[cte.copy() for cte in known]), alone)
        block.replace(replace(alone))
        unlink(block)


def _blocks(node: exp.Expr) -> list[exp.Select]:
    """The blocks at `node` and below it, inner ones first, else in the order of the text."""
    found = [block for child in node.iter_expressions() for block in _blocks(child)]
    if isinstance(node, exp.Select) and takes_numbers(node):
        found.append(node)
    return found


def _is_named(tree: exp.Expr, cte: exp.Expr) -> bool:
    return any(table.name == cte.alias for table in nodes_of(tree, exp.Table) if not table.db)


def relation_of(name: str, columns: Sequence[OutputColumn]) -> Relation:
    """The relation with the rows of a step. Raises Unsupported."""
    return Relation(name, (NUMBER, *_stored(columns)), (NUMBER.name,))


def _stored(columns: Sequence[OutputColumn]) -> Iterator[Column]:
    for i, column in enumerate(columns):
        if column.type is None:
            raise Unsupported(
                f"The type of {column.name}, in a list that takes numbers, is not known.",
                cure=f"Write CAST(… AS type) AS {column.name}.",
            )
        yield Column(f"c{i}", column.type.stored())


def query_of(relation: Relation, names: Sequence[str]) -> exp.Select:
    """The query of all rows of a step, under the names of its columns."""
    selected = [
        exp.alias_(exp.column(column.name), exp.to_identifier(name, quoted=True), copy=False)
        for column, name in zip(relation.columns[1:], names, strict=True)
    ]
    table = exp.Table(this=exp.to_identifier(relation.name, quoted=True))
    return exp.select(*selected, copy=False).from_(table, copy=False)
