"""The queries that the statements of a write need, built from their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from hornbeam_server.query.parsing.placeholders import Parameter, parameter_key


def search_of(ast: exp.Expr, selected: Sequence[exp.Expr]) -> exp.Select:
    """The search for the rows of an UPDATE or DELETE: `selected`, over the relations of FROM or
    USING and the target, which comes last: the conditions of their joins do not see it."""
    origin = ast.args.get("from_")
    items = [origin.this] if origin is not None else ast.args.get("using") or []
    tables: list[exp.Join] = []
    for item in (*items, ast.this):
        first = item.copy()
        joins = first.args.get("joins") or []
        first.set("joins", None)
        tables += [exp.Join(this=first), *joins]
    query = exp.select(*selected, copy=False).from_(tables.pop(0).this, copy=False)
    query.set("joins", tables)
    where = ast.args.get("where")
    if where is None:
        return query
    conjuncts = [where.this.copy(), *_listed(where.this, query, ast.this.alias_or_name)]
    return query.where(*conjuncts, copy=False)


def merge_of(
    ast: exp.Merge, key: Sequence[exp.Expr], values: Sequence[exp.Expr], actions: Sequence[int]
) -> exp.Select:
    """The search of a MERGE: `key` of the target's row, the number of the action, and `values`.
    `actions` has the number of the action of each WHEN; a negative one is DO NOTHING."""
    whens = list(zip(ast.args["whens"].expressions, actions, strict=True))
    chosen = exp.Case(
        ifs=[
            exp.If(
                this=exp.Not(this=exp.Is(this=key[0].copy(), expression=exp.Null())),
                true=_first_of([pair for pair in whens if pair[0].args["matched"]]),
            )
        ],
        default=_first_of([pair for pair in whens if not pair[0].args["matched"]]),
    )
    columns = [*key, exp.alias_(chosen, "__action", copy=False), *values]
    query = exp.select(*columns, copy=False).from_(ast.args["using"].copy(), copy=False)
    inserts = any(not when.args["matched"] and action >= 0 for when, action in whens)
    join = exp.Join(this=ast.this.copy(), side="LEFT" if inserts else None)
    query.set("joins", [join])
    condition = ast.args["on"]
    listed = _listed(condition, query, ast.this.alias_or_name)
    join.set("on", exp.and_(condition.copy(), *listed, copy=False))
    return query


def _first_of(whens: Sequence[tuple[exp.Expr, int]]) -> exp.Expr:
    """The number of the action of the first WHEN whose condition holds; NULL if none holds."""
    if not whens:
        return exp.Null()
    ifs = []
    for when, action in whens:
        condition = when.args.get("condition")
        condition = exp.true() if condition is None else condition.copy()
        value = exp.Null() if action < 0 else exp.Literal.number(action)
        ifs.append(exp.If(this=condition, true=value))
    return exp.Case(ifs=ifs)


def _listed(condition: exp.Expr, query: exp.Select, target: str) -> Iterator[exp.In]:
    """For each `target.a = v.b` in a WHERE, where `v` are VALUES of constants: `target.a IN (…)`.
    The condition follows from the other. It makes the target's rows look-ups."""
    items = [query.args["from_"].this, *(join.this for join in query.args["joins"])]
    values = {item.alias: item for item in items if isinstance(item, exp.Values) and item.alias}
    conjuncts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    for conjunct in conjuncts:
        if not isinstance(conjunct, exp.EQ):
            continue
        sides = conjunct.this, conjunct.expression
        for own, other in (sides, sides[::-1]):
            if _alias(own) != target or _alias(other) not in values:
                continue
            cells = _cells(values[_alias(other)], other.name)
            if cells and all(isinstance(c, exp.Literal | exp.Placeholder) for c in cells):
                yield exp.In(this=own.copy(), expressions=[cell.copy() for cell in cells])


def _alias(node: exp.Expr) -> str:
    """The alias of the FROM item to which a column belongs; "" for other nodes."""
    bound: tuple[int | None, str, str] = node.meta.get("column", (None, "", ""))
    return bound[1] if isinstance(node, exp.Column) else ""


def _cells(values: exp.Values, name: str) -> list[exp.Expr]:
    """The cells of a column of VALUES; none if the column has no name there."""
    names = [column.name for column in values.args["alias"].columns]
    if name not in names:
        return []
    at = names.index(name)
    rows = [row.expressions for row in values.expressions if isinstance(row, exp.Tuple)]
    return [row[at] for row in rows]


def name_parameters(query: exp.Expr) -> dict[str, int | str]:
    """Give the parameters of a part of a statement names, and return the parameters of the
    statement by these names: numbers may have gaps in a part."""
    uses: dict[str, int | str] = {}
    for node in list(query.find_all(exp.Placeholder)):
        key = parameter_key(node)
        name = f"p{key}" if isinstance(key, int) else key
        uses[name] = key
        node.set("this", name)
        node.meta["parameter"] = Parameter(name)
    return uses


def put_before(with_: exp.With, query: exp.Expr) -> None:
    """Put the CTEs of a statement before those of its part `query`. The part's own CTE hides one of
    the same name."""
    own = query.args.get("with_")
    if own is not None:
        names = {cte.alias for cte in own.expressions}
        outer = [cte for cte in with_.expressions if cte.alias not in names]
        with_.set("expressions", outer + own.expressions)
        with_.set("recursive", with_.args.get("recursive") or own.args.get("recursive"))
    query.set("with_", with_)
