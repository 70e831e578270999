"""nextval in WHERE, ORDER BY, GROUP BY, aggregates and window functions of a query.

No evaluator knows sequences, so rows take their numbers in the list of a SELECT. A SELECT that uses
numbers in other places is written over a block that takes them: `SELECT sum(nextval('s') * x) FROM
t JOIN u ON …` is `SELECT sum(number_1 * c1) FROM (SELECT x AS c1, nextval('s') AS number_1 FROM t
JOIN u ON …)`. Each row of FROM takes its numbers, as in PostgreSQL: behind the conditions of WHERE
that are evaluated first, and before ORDER BY, LIMIT and groups.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.functions import makes_or_takes_rows
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.parsing.sequence_calls import CALL, calls_in
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.trees import supersede, written

_BLOCK = "numbered"
_TAKING = ("where", "order", "group", "distinct", "windows")
"""The clauses in which rows of FROM take numbers."""
_CLAUSES = (*_TAKING, "having")


def takes_numbers(select: exp.Expr) -> bool:
    """Whether the list or a clause of this SELECT calls a function of sequences."""
    if not isinstance(select, exp.Select):
        return False
    return any(map(calls_in, [*select.expressions, *_parts(select, _CLAUSES)]))


def uses_numbers(select: exp.Select) -> bool:
    """May this SELECT use numbers in other places than its list? False only if it does not."""
    return any(True for _ in (*_calls_in_clauses(select), *_calls_in_list(select)))


def put_numbers_below(select: exp.Expr) -> bool:
    """Write a bound SELECT over a block that takes the numbers it uses, in place; False if it uses
    none. The SELECT and the block have to be bound again. Raises Unsupported."""
    if not isinstance(select, exp.Select) or select.args.get("from_") is None:
        return False
    _name_keys(select)
    calls = [*_calls_in_clauses(select), *_calls_in_list(select)]
    if not any(call.name.lower() == "nextval" for call in calls):
        return False
    block = exp.Select()
    _move_conditions(select, block)
    _name_columns(select)
    columns = list(_columns(select, _names_in_from(select)))
    listed = _Listed()
    for call in calls:
        supersede(call, listed.number(call))
    for column in columns:
        supersede(column, listed.column(column))
    for name in ("from_", "joins", "laterals"):
        block.set(name, select.args.get(name))
        select.set(name, None)
    block.set("expressions", listed.items)
    alias = exp.TableAlias(this=exp.to_identifier(_BLOCK, quoted=True))
    select.set("from_", exp.From(this=exp.Subquery(this=block, alias=alias)))
    return True


# ---------------------------------------------------------------- calls


def _keys(select: exp.Select) -> Iterator[exp.Expr]:
    """The keys of ORDER BY and GROUP BY."""
    for name in ("order", "group"):
        clause = select.args.get(name)
        for each in clause.expressions if clause is not None else ():
            key = each.this if isinstance(each, exp.Ordered) else each
            yield key.unnest() if isinstance(key, exp.Paren) else key


def _name_keys(select: exp.Select) -> None:
    """Write a key that repeats an item of the list as the number of the item: both are one call."""
    values = [item.unalias() for item in select.expressions]
    for key in list(_keys(select)):
        if calls_in(key) and key in values:
            supersede(key, exp.Literal.number(values.index(key) + 1))


def _parts(select: exp.Select, names: Sequence[str]) -> Iterator[exp.Expr]:
    """The parts of these clauses."""
    for name in names:
        clause = select.args.get(name)
        yield from clause if isinstance(clause, list) else [clause] if clause is not None else []


def _calls_in_clauses(select: exp.Select) -> Iterator[exp.Expr]:
    for clause in _parts(select, _TAKING):
        yield from calls_in(clause)


def _calls_in_list(select: exp.Select) -> Iterator[exp.Expr]:
    """The calls in arguments of aggregates and windows, and in items that ORDER BY or GROUP BY
    names. All others stay: rows take these numbers in the order of the result."""
    named = {key.name for key in _keys(select) if _means_output(key)}
    for place, item in enumerate(select.expressions, start=1):
        known = str(place) in named or item.alias_or_name in named
        yield from (call for call in calls_in(item) if known or _is_gathered(call))


def _means_output(key: exp.Expr) -> bool:
    """May a key of ORDER BY or GROUP BY mean an item of the list?"""
    return isinstance(key, exp.Literal) or (
        isinstance(key, exp.Column) and "column" not in key.meta
    )


def _is_gathered(call: exp.Expr) -> bool:
    """Is the call an argument of an aggregate or of a window function?"""
    node = call.parent
    while node is not None and not isinstance(node, exp.Query):
        if makes_or_takes_rows(node) or isinstance(node, exp.Window | exp.Filter):
            return True
        node = node.parent
    return False


# ---------------------------------------------------------------- rows of FROM


def _move_conditions(select: exp.Select, block: exp.Select) -> None:
    """Move the conditions of WHERE that are evaluated before the first number to `block`: of a
    join, all without calls, since they decide which rows meet."""
    where = select.args.get("where")
    if where is None:
        return
    conjuncts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    joined = bool(select.args.get("joins") or select.args.get("laterals"))
    first = next((n for n, each in enumerate(conjuncts) if calls_in(each)), len(conjuncts))
    below = [
        each for n, each in enumerate(conjuncts) if n < first or (joined and not calls_in(each))
    ]
    left = [each for each in conjuncts if all(each is not moved for moved in below)]
    for target, some in ((block, below), (select, left)):
        condition = exp.and_(*some, copy=False) if some else None
        target.set("where", None if condition is None else exp.Where(this=condition))


def _name_columns(select: exp.Select) -> None:
    """Give the columns of the list their names, and write stars out as the columns that binding has
    found for them."""
    joins = select.args.get("joins") or ()
    merged = frozenset(name.name for join in joins for name in join.args.get("using") or ())
    items: list[exp.Expr] = []
    for item in select.expressions:
        if item.is_star:
            bare = isinstance(item, exp.Star)
            items += _starred(item if bare else item.this, merged if bare else frozenset())
        elif isinstance(item, exp.Column):
            items.append(exp.alias_(item, exp.to_identifier(item.name, quoted=True), copy=False))
        else:
            items.append(item)
    select.set("expressions", items)


def _starred(star: exp.Expr, merged: frozenset[str]) -> Iterator[exp.Expr]:
    """The columns of a star. `merged`: those of USING, which belong to no side of their join."""
    replaced = {alias.alias: alias.this for alias in star.args.get("replace") or ()}
    for _, alias, _, visible, output in star.meta["columns"]:
        table = None if visible in merged else alias or None
        value = replaced.get(visible) or exp.column(visible, table, quoted=True)
        yield exp.alias_(value, exp.to_identifier(output, quoted=True), copy=False)


def _names_in_from(select: exp.Select) -> frozenset[str]:
    """The names of the items of FROM."""
    origin = [select.args["from_"], *(select.args.get("joins") or [])]
    origin += select.args.get("laterals") or []
    found = (
        node.alias_or_name
        for each in origin
        for node in each.walk(prune=lambda node: isinstance(node, exp.Query))
    )
    return frozenset(filter(None, found))


def _columns(select: exp.Select, names: frozenset[str]) -> Iterator[exp.Column]:
    """The columns of FROM in the list and the clauses of a SELECT, also in their subqueries.
    `names`: those in FROM. Raises Unsupported for a column that a subquery's own name hides."""
    for part in [*select.expressions, *_parts(select, _CLAUSES)]:
        for column in part.find_all(exp.Column):
            if "alias" in column.meta:
                continue
            queries = list(_queries_around(column, select))
            if not queries:
                yield column
                continue
            alias = column.meta["column"][1] if "column" in column.meta else column.table
            hidden = any(alias in _names_in_from(each) for each in queries if _reads(each))
            if alias not in names or (hidden and not column.meta.get("shadowed")):
                continue
            if hidden:
                raise Unsupported(
                    f"{written(column, NAME)} in a subquery means another {alias} than the"
                    " subquery's own, in a query that takes numbers.",
                    cure=f"Write another alias for {alias} in the subquery.",
                )
            yield column


def _reads(select: exp.Select) -> bool:
    return select.args.get("from_") is not None


def _queries_around(column: exp.Expr, select: exp.Select) -> Iterator[exp.Select]:
    """The SELECTs between a column and `select`."""
    node = column.parent
    while node is not None and node is not select:
        if isinstance(node, exp.Select):
            yield node
        node = node.parent


class _Listed:
    """The list of the block: columns and calls, each once."""

    def __init__(self) -> None:
        self.items: list[exp.Expr] = []
        self._names: dict[Hashable, str] = {}

    def number(self, call: exp.Expr) -> exp.Column:
        """The column of the block with the number of `call`; copies of a call share it."""
        return self._listed(call.meta[CALL], call, "number_")

    def column(self, column: exp.Column) -> exp.Column:
        """The column of the block with the value of `column`."""
        bound = column.meta.get("column")
        known = bound if bound is not None and bound[1] else written(column, NAME)
        return self._listed(known, column, "c")

    def _listed(self, key: Hashable, node: exp.Expr, prefix: str) -> exp.Column:
        if key not in self._names:
            self._names[key] = name = f"{prefix}{len(self.items) + 1}"
            alias = exp.to_identifier(name, quoted=True)
            self.items.append(exp.alias_(node.copy(), alias, copy=False))
        return exp.column(self._names[key], _BLOCK, quoted=True)
