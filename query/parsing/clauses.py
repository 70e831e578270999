"""Clauses that PostgreSQL refuses, and that DuckDB would leave out, or refuse in its own words.

A constant in ORDER BY, GROUP BY or DISTINCT ON orders nothing. A window in parentheses that begins
with the name of another takes its PARTITION BY and ORDER BY, but no frame. `* EXCLUDE` and its like
are DuckDB's: they name each column once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.dialect.functions import is_aggregate
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.query.parsing.assignments import is_assignment
from hornbeam_server.schema.errors import SqlError, Unsupported

_CONSTANTS = (exp.Boolean, exp.Null, exp.Literal)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def check_clauses(nodes: Iterable[exp.Expr], tokens: Sequence[Token], sql: str) -> None:
    """Raise SqlError, or Unsupported, for such a clause in `nodes`, which `tokens` were read to."""
    for node in nodes:
        match node:
            case exp.Star():
                _check_star(node)
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                _check_chain(node, sql)
            case exp.WindowSpec():
                _check_frame(node)
            case exp.Filter():
                _check_filter(node)
            case exp.AggFunc() | exp.Anonymous() if is_aggregate(node):
                _check_level(node, sql)
            case exp.Select(expressions=[]):
                raise Unsupported(
                    "A SELECT without columns is not supported.", cure="Write SELECT 1."
                )
            case exp.Select() | exp.SetOperation():
                for clause, constant in _constants(node):
                    raise SqlError(
                        f"{clause} has a constant, which is no position: {constant.sql()}.",
                        cure="Write a number from 1, a name, or an expression.",
                    )
                if isinstance(node, exp.Select) and node.args.get("windows"):
                    _check_windows(node, tokens, sql)


def _check_chain(node: exp.Binary, sql: str) -> None:
    """Refuse `a = b = c`. `SET a = b = c` assigns a condition."""
    chained = any(isinstance(side, _COMPARISONS) for side in (node.this, node.expression))
    if chained and not is_assignment(node):
        raise SqlError(
            f"A comparison is compared{at(node, sql)}: comparisons cannot be chained.",
            cure="Write a < b AND b < c, or parentheses: (a < b) = c.",
        )


def _check_frame(frame: exp.WindowSpec) -> None:
    for side in ("start", "end"):
        value = frame.args.get(side)
        if isinstance(value, exp.Expr) and isinstance(_uncast(value), exp.Null):
            raise SqlError(f"The {side} of a frame is NULL.", cure="Write a number of rows.")
    grouped = str(frame.args.get("kind")).upper() == "GROUPS"
    if grouped and isinstance(frame.parent, exp.Window) and not _has_order(frame.parent):
        raise SqlError(
            "GROUPS counts groups of equal rows, and the window has no ORDER BY.",
            cure="Write ORDER BY in the window, or ROWS.",
        )


def _has_order(window: exp.Window) -> bool:
    """Has a window ORDER BY, or a window with whose name it begins?"""
    select = window.parent_select
    named = select.args.get("windows") or () if select is not None else ()
    bases = [each for each in named if each is not window and each.this.name == window.alias]
    return bool(window.args.get("order")) or any(map(_has_order, bases))


def _uncast(value: exp.Expr) -> exp.Expr:
    inner = value.unnest()
    return _uncast(inner.this) if isinstance(inner, exp.Cast) else inner


def _check_filter(node: exp.Filter) -> None:
    if any(is_aggregate(each) for each in _outside_queries(node.expression)):
        raise SqlError(
            "FILTER has an aggregate.", cure="Compute it in a subquery, and filter by its column."
        )


def _outside_queries(root: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression that are in none of its queries."""
    return root.walk(
        prune=lambda each: each is not root and isinstance(each, exp.Query | exp.Subquery)
    )


def _check_level(aggregate: exp.Expr, sql: str) -> None:
    """Refuse an aggregate in a subquery without FROM whose argument has a subquery: PostgreSQL
    looks into the argument for the query to which the aggregate belongs."""
    select = aggregate.parent_select
    if select is None or select.args.get("from_") or select.parent_select is None:
        return
    if aggregate.find(exp.Query) is not None:
        raise Unsupported(
            f"An aggregate of a query around this subquery has a subquery{at(aggregate, sql)}.",
            cure="Write the inner subquery as a column of a subquery in FROM.",
        )


def _constants(query: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """The constants in the clauses of a query that are not positions."""
    listed = [("ORDER BY", each.this) for each in _listed(query, "order")]
    if isinstance(query, exp.Select):
        listed += [("GROUP BY", each) for each in _listed(query, "group")]
        distinct = query.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        listed += [("DISTINCT ON", each) for each in (on.expressions if on is not None else ())]
    for clause, each in listed:
        if isinstance(each, _CONSTANTS) and not (each.is_int and not each.is_string):
            yield clause, each


def _listed(query: exp.Expr, clause: str) -> Sequence[exp.Expr]:
    found = query.args.get(clause)
    return found.expressions if isinstance(found, exp.Expr) else ()


def _check_windows(select: exp.Select, tokens: Sequence[Token], sql: str) -> None:
    """Check the windows that begin with the name of a window of this SELECT."""
    named = {each.this.name: each for each in select.args["windows"]}
    inner = [each for each in named.values() if each.args.get("alias") is not None]
    for window in [*select.find_all(exp.Window), *inner]:
        base = named.get(window.alias)
        if base is None or window.parent_select is not select or _is_bare(window, tokens):
            continue
        if base.args.get("spec") is not None:
            raise SqlError(
                f"Window {window.alias} has a frame, so another window cannot begin with it.",
                cure=f"Write OVER {window.alias}, without parentheses, or take the frame out of"
                f" the window{at(window.args['alias'], sql)}.",
            )
        for clause, word in (("partition_by", "PARTITION BY"), ("order", "ORDER BY")):
            if window.args.get(clause) and (clause != "order" or base.args.get(clause)):
                raise SqlError(
                    f"A window that begins with {window.alias} cannot have its own {word}.",
                    cure="Write the whole window, without the name.",
                )


def _is_bare(window: exp.Window, tokens: Sequence[Token]) -> bool:
    """Is this OVER name, not OVER (name …)? The library reads both as one."""
    start = window.args["alias"].meta.get("start")
    before = next((i for i, token in enumerate(tokens) if token.start == start), 0)
    return tokens[before - 1].token_type is TokenType.OVER


def _check_star(star: exp.Star) -> None:
    if star.args.get("ilike") is not None:
        raise Unsupported("* ILIKE is not supported.", cure="Name the columns.")
    excluded = star.args.get("except_") or []
    for column in excluded:
        if isinstance(column, exp.Column) and column.table:
            raise Unsupported(
                f"EXCLUDE ({column.sql()}) is not supported.",
                cure=f"Name the column alone, behind {column.table}.*.",
            )
    names = [
        *(column.name for column in excluded),
        *(each.alias for each in star.args.get("replace") or ()),
        *(each.this.name for each in star.args.get("rename") or ()),
    ]
    for name, count in Counter(names).items():
        if count > 1:
            raise SqlError(f"{name} is listed twice behind *.", cure="List it once.")
