"""Expressions of a view's SELECT: resolves their names to columns of the algebra and checks them.

A renamed expression's columns are quoted identifiers without a table, such as `"o.o_orderkey"`;
the rest of the expression is as the user wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from hornbeam_server.maintain.deltas.relations import labels_in_duckdb
from hornbeam_server.query.dialect.catalogue import VOLATILE
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.dialect.functions import function_name, is_aggregate, is_current_time
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.query.typing.constants import CONSTANT
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.trees import nodes_of

IN_ANY_ORDER = frozenset({"bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "count"})
"""Aggregates whose result does not depend on the order of rows, and that may have no order."""
KEPT = IN_ANY_ORDER | {
    *("string_agg", "array_agg", "any_value"),
    *("sum", "avg", "min", "max"),
    *("stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance"),
    *("quantile_cont", "quantile_disc", "median", "mode"),
    *("max_by", "min_by", "arg_max", "arg_min", "argmax", "argmin"),
    *("corr", "covar_pop", "covar_samp", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept"),
    *("regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy"),
}
"""Aggregates that views can have."""
_VOLATILE_WORDS = {
    *("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"),
    *("rand", "random", "uuid", "now", "today"),
}


@dataclass
class Scope:
    """The names of one SELECT: alias → column → name in the algebra. `aliased` has the renamed
    expressions of the SELECT's own output columns."""

    sql: str
    parent: Scope | None = None
    columns: dict[str, Mapping[str, str]] = field(default_factory=dict)
    aliased: dict[str, exp.Expr] = field(default_factory=dict)

    def find(self, alias: str, column: str) -> str | None:
        scope: Scope | None = self
        while scope is not None:
            if alias in scope.columns:
                return scope.columns[alias].get(column)
            scope = scope.parent
        return None

    def knows(self, alias: str) -> bool:
        return alias in self.columns or (self.parent is not None and self.parent.knows(alias))

    @property
    def own(self) -> frozenset[str]:
        """Names of this SELECT's columns."""
        return frozenset(name for names in self.columns.values() for name in names.values())


def rename(node: exp.Expr, scope: Scope) -> exp.Expr:
    """A copy of `node` over names of the algebra. Raises Unsupported for a column without one."""

    def renamed(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
            return _column(part, scope)
        return part

    return node.copy().transform(renamed)


def _column(node: exp.Column, scope: Scope) -> exp.Expr:
    if node.meta.get("alias"):
        value = scope.aliased.get(node.name)
        if value is None:
            raise Unsupported(
                f"{node.name} is used before it is computed{at(node, scope.sql)}.",
                cure="Repeat the expression.",
            )
        return exp.Paren(this=value.copy())
    place = node.meta.get("column")
    name = scope.find(place[1], place[2]) if place is not None and place[1] else None
    if place is not None and place[1] and not scope.knows(place[1]):
        raise Unsupported(
            f"Column {node.name} belongs to an outer SELECT{at(node, scope.sql)}.",
            cure="Join in FROM.",
        )
    if name is None or node.meta.get("shadowed"):
        raise Unsupported(
            f"The relation of column {node.name} is not certain{at(node, scope.sql)}.",
            cure="Give every relation and subquery in FROM an alias, every computed column a name "
            "with AS, and write alias.column.",
        )
    return column(name)


def column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def names_in(node: exp.Expr) -> frozenset[str]:
    """The columns that a renamed expression reads."""
    return frozenset(found.name for found in nodes_of(node, exp.Column))


def plain(node: exp.Expr) -> str | None:
    """The column's name if a renamed expression is a plain column, otherwise None."""
    node = node.unnest()
    return node.name if isinstance(node, exp.Column) else None


def text(node: exp.Expr) -> str:
    """The expression as SQL for DuckDB. A constant of an ENUM has its type there
    (`relations.labels_in_duckdb`), so that DuckDB tells which results have it."""
    return duckdb_sql(_with_typed_labels(node))


def _with_typed_labels(node: exp.Expr) -> exp.Expr:
    found = [each for each in node.walk() if _is_label(each)]
    if not found:
        return node
    typed = node.copy().transform(lambda each: _typed(each) if _is_label(each) else each)
    return typed if isinstance(typed, exp.Expr) else node


def _is_label(node: exp.Expr) -> bool:
    constant = node.meta.get(CONSTANT)
    return constant is not None and constant[0].enumeration is not None


def _typed(node: exp.Expr) -> exp.Expr:
    type_ = exp.DataType.build(labels_in_duckdb(node.meta[CONSTANT][0]), dialect="duckdb")
    return exp.Cast(this=exp.Literal.string(node.meta[CONSTANT][1].position), to=type_)


def conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """Conditions connected by AND, and the conditions common to all sides of an OR: the OR implies
    them, and they may be join conditions."""
    if node is None:
        return
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
        return
    if isinstance(node, exp.Or):
        first, *others = ({text(p): p for p in conjuncts(side)} for side in _sides(node))
        common = (part for sql, part in first.items() if all(sql in other for other in others))
        yield from (part for part in common if part.find(exp.Query) is None)
    yield node


def _sides(node: exp.Expr) -> Iterator[exp.Expr]:
    """Conditions connected by OR."""
    node = node.unnest()
    if isinstance(node, exp.Or):
        yield from _sides(node.this)
        yield from _sides(node.expression)
    else:
        yield node


def all_of(nodes: Sequence[exp.Expr]) -> str:
    return " AND ".join(f"({text(node)})" for node in nodes)


def aggregates_in(node: exp.Expr) -> bool:
    """Does an expression, without its subqueries, have an aggregate of a group? One with OVER reads
    rows instead."""
    parts = node.walk(prune=lambda part: isinstance(part, exp.Query))
    return any(is_aggregate(part) and not is_windowed(part) for part in parts)


def is_windowed(call: exp.Expr) -> bool:
    """Does a call have OVER?"""
    around = call.parent
    while isinstance(around, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        if around.this is not call:
            return False
        call, around = around, around.parent
    return isinstance(around, exp.Window) and around.this is call


def check(tree: exp.Expr, sql: str) -> None:
    """Raise Unsupported if the tree has a construct that no deferred view can have."""
    for node in tree.walk():
        match node:
            case exp.Order() if _orders_result(node):
                raise refused("ORDER BY", node, sql, "Leave it out, and order what reads the view.")
            case exp.Limit() if limited(node.parent) is None:
                raise refused("LIMIT", node, sql, "Leave it out, and limit what reads the view.")
            case exp.Fetch() | exp.Offset():
                raise refused("LIMIT", node, sql, "Leave it out, and limit what reads the view.")
            case exp.Placeholder():
                raise refused("A parameter", node, sql, "Write a value.")
            case exp.Func():
                _check_function(node, sql)
            case exp.Lateral() if not isinstance(node.this, exp.Subquery):
                raise refused("LATERAL", node, sql, "")
            case exp.Qualify() | exp.Unnest():
                raise refused(type(node).__name__.upper(), node, sql, "")


def _orders_result(order: exp.Order) -> bool:
    """Does an ORDER BY order a result? That of DISTINCT ON chooses rows."""
    around = order.parent
    chooses = isinstance(around, exp.Select) and (has_on(around) or limited(around) is not None)
    return isinstance(around, exp.Query) and not chooses


def limited(select: exp.Expr | None) -> int | None:
    """The number of rows that LIMIT leaves a LATERAL subquery; None for other SELECTs."""
    if not isinstance(select, exp.Select) or not isinstance(select.parent, exp.Subquery):
        return None
    limit = select.args.get("limit")
    value = limit.expression if isinstance(limit, exp.Limit) else None
    if not isinstance(value, exp.Literal) or not isinstance(select.parent.parent, exp.Lateral):
        return None
    return int(value.name) if value.name.isdigit() else None


def has_on(select: exp.Select) -> bool:
    """Does the SELECT have DISTINCT ON?"""
    distinct = select.args.get("distinct")
    return distinct is not None and distinct.args.get("on") is not None


def check_repeatable(tree: exp.Expr, sql: str) -> None:
    """Raise Unsupported for volatile functions, and for parameters: a view has no parameters."""
    for node in tree.walk():
        if isinstance(node, exp.Placeholder):
            raise refused("A parameter", node, sql, "Write a value.")
        if isinstance(node, exp.Func):
            _check_volatile(node, sql)


def _check_volatile(node: exp.Func, sql: str) -> None:
    if function_name(node) in VOLATILE | _VOLATILE_WORDS:
        raise refused(
            f"{function_name(node)}, which gives another value each time,", node, sql,
            "Store the value in a column.",
        )  # fmt: skip


def _check_function(node: exp.Func, sql: str) -> None:
    if not is_current_time(node):
        _check_volatile(node, sql)
    elif not _is_in_condition(node):
        raise refused(
            "The current time, outside WHERE and HAVING,", node, sql,
            "Compare a column with it in WHERE: at > now() - INTERVAL '1 hour'.",
        )  # fmt: skip
    if is_aggregate(node) and function_name(node) not in KEPT and not is_windowed(node):
        raise refused(
            f"The aggregate {function_name(node)}", node, sql,
            f"These aggregates can be kept: {', '.join(sorted(KEPT))}.",
        )  # fmt: skip


def _is_in_condition(node: exp.Expr) -> bool:
    """Is a node a part of the WHERE or HAVING of a SELECT?"""
    clause = node.find_ancestor(exp.Where, exp.Having, exp.Select, exp.Filter)
    return isinstance(clause, exp.Having) or (
        isinstance(clause, exp.Where) and isinstance(clause.parent, exp.Select)
    )


def refused(what: str, node: exp.Expr, sql: str, cure: str) -> Unsupported:
    return Unsupported(
        f"{what} cannot be kept up to date from changes{at(node, sql)}.",
        cure=cure or "Say it in the queries that read the view.",
    )


def no_subquery(node: exp.Expr, sql: str) -> None:
    """Raise Unsupported if an expression has a subquery."""
    found = node.find(exp.Query)
    if found is not None:
        raise Unsupported(
            f"A subquery here cannot be kept up to date from changes{at(found, sql)}.",
            cure="Join with it in FROM; in WHERE, [NOT] EXISTS, [NOT] IN and one value of an "
            "aggregate may stand beside AND.",
        )
