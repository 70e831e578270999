"""nextval in WHERE, ORDER BY, GROUP BY, aggregates and window functions of a query.

No evaluator knows sequences, so rows take their numbers in the list of a SELECT. A SELECT that
reads a single item of FROM, and uses numbers there, is written over one that takes them:
`SELECT sum(nextval('s')) FROM t` is `SELECT sum(number_1) FROM (SELECT *, nextval('s') AS number_1
FROM t) AS t`. Each row of FROM takes its numbers, as in PostgreSQL: behind a WHERE without calls,
and before ORDER BY, LIMIT and groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from hornbeam_server.query.dialect.functions import makes_or_takes_rows
from hornbeam_server.query.parsing.sequence_calls import CALL, calls_in
from hornbeam_server.schema.trees import supersede

_CLAUSES = ("where", "order", "group", "distinct")


def put_numbers_below(tree: exp.Expr) -> None:
    """Write such SELECTs of the tree, inner ones first, in place."""
    for select in reversed(list(tree.find_all(exp.Select))):
        item = _only_item(select)
        if item is None:
            continue
        _name_keys(select)
        calls = [*_calls_in_clauses(select), *_calls_in_list(select)]
        if any(call.name.lower() == "nextval" for call in calls):
            _put_below(select, item, calls)


def _only_item(select: exp.Select) -> exp.Expr | None:
    """The only item of FROM, which has a name; None if there are others, or none."""
    origin = select.args.get("from_")
    if origin is None or select.args.get("joins") or select.args.get("laterals"):
        return None
    item: exp.Expr = origin.this
    plain = isinstance(item, exp.Table | exp.Subquery | exp.Values) and not item.args.get("joins")
    return item if plain and item.alias_or_name else None


def _keys(select: exp.Select) -> Iterator[exp.Expr]:
    """The keys of ORDER BY and GROUP BY."""
    for name in ("order", "group"):
        clause = select.args.get(name)
        for each in clause.expressions if clause is not None else ():
            yield each.this if isinstance(each, exp.Ordered) else each


def _name_keys(select: exp.Select) -> None:
    """Write a key that repeats an item of the list as the number of the item: both are one call."""
    values = [item.unalias() for item in select.expressions]
    for key in list(_keys(select)):
        if calls_in(key) and key in values:
            supersede(key, exp.Literal.number(values.index(key) + 1))


def _calls_in_clauses(select: exp.Select) -> Iterator[exp.Expr]:
    for name in _CLAUSES:
        clause = select.args.get(name)
        yield from calls_in(clause) if clause is not None else ()


def _calls_in_list(select: exp.Select) -> Iterator[exp.Expr]:
    """The calls in arguments of aggregates and windows, and in items that ORDER BY or GROUP BY
    names. All others stay: rows take these numbers in the order of the result."""
    named = {key.name for key in _keys(select) if isinstance(key, exp.Column | exp.Literal)}
    for place, item in enumerate(select.expressions, start=1):
        known = str(place) in named or item.alias_or_name in named
        yield from (call for call in calls_in(item) if known or _is_gathered(call))


def _is_gathered(call: exp.Expr) -> bool:
    """Is the call an argument of an aggregate or of a window function?"""
    node = call.parent
    while node is not None and not isinstance(node, exp.Query):
        if makes_or_takes_rows(node) or isinstance(node, exp.Window | exp.Filter):
            return True
        node = node.parent
    return False


def _put_below(select: exp.Select, item: exp.Expr, calls: Iterable[exp.Expr]) -> None:
    taken: dict[int, exp.Expr] = {}
    for call in calls:
        key = call.meta[CALL]
        taken.setdefault(key, call.copy())
        supersede(call, exp.column(_name([*taken].index(key))))
    names = [_name(place) for place in range(len(taken))]
    pairs = zip(taken.values(), names, strict=True)
    numbers = [exp.alias_(call, name.copy()) for call, name in pairs]
    inner = exp.Select(expressions=[exp.Star(), *numbers])
    where = select.args.get("where")
    if where is not None and not any(each in names for each in where.find_all(exp.Identifier)):
        select.set("where", None)
        inner.set("where", where)
    alias = exp.TableAlias(this=exp.to_identifier(item.alias_or_name, quoted=True))
    item.replace(exp.Subquery(this=inner, alias=alias))
    inner.set("from_", exp.From(this=item))
    for star in _stars(select.expressions):
        star.set("except_", [*(star.args.get("except_") or []), *map(exp.column, names)])


def _name(place: int) -> exp.Identifier:
    return exp.to_identifier(f"number_{place + 1}", quoted=True)


def _stars(items: Iterable[exp.Expr]) -> Iterator[exp.Star]:
    for item in items:
        inner = item.this if isinstance(item, exp.Column) else item
        if isinstance(inner, exp.Star):
            yield inner
