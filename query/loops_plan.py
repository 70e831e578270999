"""The planner for native execution (`query/execution/loops.py`).

A query that cannot run natively is refused with a reason (`NotNative`), which `explain` shows;
DuckDB answers it instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sqlglot import exp

from hornbeam_server.query.binding.algebra import (
    Block,
    Comparison,
    Filter,
    ParameterList,
)
from hornbeam_server.query.binding.binder import BoundQuery
from hornbeam_server.query.binding.blocks import joinable, split
from hornbeam_server.query.dialect.sums import is_exact, spell_out
from hornbeam_server.query.execution.lookups import Key, getter, has_columns
from hornbeam_server.query.execution.loops import Answer, Lookup, NativePlan, Outer
from hornbeam_server.query.execution.values import (
    Groups,
    GroupScope,
    NotNative,
    RowScope,
    conjunction,
    direction,
    grouping,
    plain_columns,
    projection,
    sort_term,
)
from hornbeam_server.query.optimizer.access_paths import (
    Access,
    Hint,
    JoinColumn,
    Parameters,
    Paths,
    Term,
    choose,
    exact,
    fewest_rows,
)
from hornbeam_server.query.optimizer.implied_filters import BlockPlaces, find_hints
from hornbeam_server.query.optimizer.join_order import nested_loops, order_joins
from hornbeam_server.query.optimizer.key_ranges import values_of
from hornbeam_server.query.optimizer.outer_joins import is_left
from hornbeam_server.query.optimizer.uncorrelated_subqueries import Lift, candidates
from hornbeam_server.query.parsing.placeholders import Parameter
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.trees import nodes_of, supersede, unlink, unlink_all
from hornbeam_server.schema.types import Row

NATIVE_COST = 20_000.0
"""Joins and groupings that cost up to this many scanned rows run natively: starting DuckDB and its
threads costs as much."""
HASH_COST = 1.1
"""Cost of reading one row and passing it to DuckDB, in scanned rows. For larger joins it is
compared with the cost of lookups."""
VALUE_COST = 0.08
"""Cost of converting one value of DuckDB's result to a Python object, in scanned rows (0.2 of
2.4 µs). For a join that returns whole wide rows, this conversion costs more than native lookups.
It does not if the result is read as Arrow, or if it has few columns or rows."""
GROUPED_COST = 4.0
"""Cost of adding one row to a group, in scanned rows: from 5,000 rows on, DuckDB groups faster than
native code, including DuckDB's start."""
MAX_NODES = 4_000
"""Maximum nodes of a SELECT, not counting constants: 1 000 comparisons have this many nodes and
take 0.1 ms per row."""
UNUSED_SHARE = 0.1
"""Estimated fraction of rows that satisfy a condition that no access path uses."""

_SELECT_PARTS = {
    "expressions", "distinct", "from_", "joins", "where", "group", "having", "order", "limit",
    "offset",
}  # fmt: skip
_PART_NAMES = {
    "with_": "WITH",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "sample": "a sample",
}


def plan_native(
    bound: BoundQuery,
    catalog: Catalog,
    *,
    most_cost: float = NATIVE_COST,
    columnar: bool = False,
) -> NativePlan:
    """The native plan for `bound`. Raises NotNative with the reason.

    `most_cost`: joins and groupings up to this cost in scanned rows run natively, regardless of
    DuckDB's cost. `columnar`: the result is read as Arrow, not as rows.
    """
    if not isinstance(bound.ast, exp.Select):
        other = isinstance(bound.ast, exp.SetOperation)
        raise NotNative("a set operation" if other else "VALUES")
    if not bound.ast.args.get("from_"):
        return _plan_row(bound, bound.ast)
    _check_shape(bound.ast)
    _check_size(bound.ast)
    if bound.ast.find(exp.Subquery, exp.Avg) is None:
        return _plan(bound, (), catalog, most_cost, columnar)
    own = replace(bound, ast=bound.ast.copy())
    for average in list(own.ast.find_all(exp.Avg)):
        if is_exact(average):
            spell_out(average)
    nodes = nodes_of(own.ast)
    try:
        subqueries = list(candidates(own, catalog))
        return _plan(own, subqueries, catalog, most_cost, columnar)
    finally:
        unlink_all(nodes)


def _plan_row(bound: BoundQuery, select: exp.Select) -> NativePlan:
    """The plan of a SELECT without FROM that is a list of values. Raises NotNative."""
    if any(part for name, part in select.args.items() if name != "expressions"):
        raise NotNative("clauses of a SELECT without FROM")
    project, types = projection(_projections(select), RowScope(bound.parameter_types))
    return NativePlan(
        first=None,
        lookups=(),
        predicate=None,
        order=(),
        delivered=0,
        grouping=None,
        project=project,
        limit=None,
        offset=None,
        types=types,
    )


def _plan(
    bound: BoundQuery,
    subqueries: Sequence[tuple[exp.Subquery, Lift]],
    catalog: Catalog,
    most_cost: float,
    columnar: bool,
) -> NativePlan:
    """The plan of one SELECT. Replaces `subqueries` in the tree. Raises NotNative."""
    assert isinstance(bound.ast, exp.Select)
    number = _block_index(bound.ast)
    own = [(subquery, lift) for subquery, lift in subqueries if lift.block == number]
    bound, block, answers = _answered_first(bound, number, own, catalog)
    select = bound.ast
    assert isinstance(select, exp.Select)
    where = select.args.get("where")
    inner = itertools.filterfalse(is_left, select.args.get("joins") or ())
    conditions = [join.args.get("on") for join in inner]
    conditions.append(where.this if where is not None else None)
    conjuncts = [node for condition in conditions for node in split(condition)]
    projections = _projections(select)
    planner = _Planner(
        bound, catalog, number, block, select, conjuncts, projections, answers, most_cost, columnar
    )
    try:
        return planner.plan()
    finally:
        planner.unlink_copies()


def _answered_first(
    bound: BoundQuery,
    number: int,
    subqueries: Sequence[tuple[exp.Subquery, Lift]],
    catalog: Catalog,
) -> tuple[BoundQuery, Block, tuple[Answer, ...]]:
    """Replace the subqueries of block `number` by parameters for their results. Returns the query
    with these parameters, the block with the filters that follow from them, and the subqueries'
    plans. Raises NotNative for a subquery that is not native."""
    types = dict(bound.parameter_types)
    answers, filters = [], []
    for subquery, lift in subqueries:
        plan = plan_native(lift.query, catalog)
        given: Parameter | ParameterList = Parameter(lift.name)
        node = exp.Placeholder(this=lift.name)
        if lift.filter is not None:
            (type_,) = plan.types
            if type_ is None or not joinable(type_, lift.type):
                raise NotNative("a comparison with a subquery of another type")
            types[lift.name] = type_
            filters.append(lift.filter)
            subquery.replace(node)
        else:
            membership = subquery.parent
            assert isinstance(membership, exp.In)
            assert lift.join is not None
            given = ParameterList(lift.name, fewest_rows(plan.accesses))
            (column,) = lift.join.left_columns
            filters.append(Filter(lift.join.left, column, Comparison.IN, (given,)))
            membership.set("query", None)
            membership.set("expressions", [node])
        node.meta["parameter"] = given
        answers.append(Answer(lift.name, plan, many=lift.filter is None))
    block = bound.statement.blocks[number]
    block = replace(block, filters=(*block.filters, *filters))
    return replace(bound, parameter_types=types), block, tuple(answers)


def _check_shape(select: exp.Select) -> None:
    for name, part in select.args.items():
        if part and name not in _SELECT_PARTS:
            raise NotNative(_PART_NAMES.get(name, name))
    for join in select.args.get("joins") or ():
        kind = " ".join(str(join.args.get(key) or "") for key in ("method", "side", "kind")).strip()
        if not is_left(join) and (kind not in ("", "INNER", "CROSS") or join.args.get("using")):
            raise NotNative(f"{kind or 'USING'} join")
    for table in _tables(select):
        if not isinstance(table, exp.Table) or "source" not in table.meta:
            raise NotNative("a subquery or function in FROM")


def _check_size(select: exp.Select) -> None:
    """Raise NotNative for a long SELECT: native code runs on the event loop, so one row must not
    take long. Constants do not count, because a list of constants is one lookup."""
    nodes = sum(not isinstance(node, exp.Literal) for node in select.walk())
    if nodes > MAX_NODES:
        raise NotNative("a long expression")


def _tables(select: exp.Select) -> Iterator[exp.Expr]:
    yield select.args["from_"].this
    for join in select.args.get("joins") or ():
        yield join.this


def _block_index(select: exp.Select) -> int:
    indexes = {table.meta["source"][0] for table in _tables(select)}
    if len(indexes) != 1:
        raise NotNative("relations of several blocks")
    index: int = indexes.pop()
    return index


def _projections(select: exp.Select) -> list[exp.Expr]:
    """The SELECT list without aliases and with stars expanded."""
    found: list[exp.Expr] = []
    for node in select.expressions:
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star):
            found += _star(star)
        else:
            found.append(node.unalias())
    return found


def _star(star: exp.Star) -> Iterator[exp.Expr]:
    if star.args.get("replace"):
        raise NotNative("* REPLACE")
    for block, alias, name, *_ in star.meta["columns"]:
        column = exp.column(name, table=alias)
        column.meta["column"] = (block, alias, name)
        unlink(column)
        yield column


@dataclass
class _Planner:
    """Builds one plan; each instance is used once."""

    bound: BoundQuery
    catalog: Catalog
    number: int
    block: Block
    select: exp.Select
    conjuncts: Sequence[exp.Expr]
    projections: Sequence[exp.Expr]
    answers: tuple[Answer, ...]
    most_cost: float
    columnar: bool

    def plan(self) -> NativePlan:
        groups = self._groups()
        steps, first_row_only = self._steps(groups)
        rows = RowScope(self.bound.parameter_types)
        lookups, conjuncts = [], list(self.conjuncts)
        for step in steps:
            if not rows.width:
                rows.add(step)
                continue
            early: list[exp.Expr] = []
            late: list[exp.Expr] = []
            for each in conjuncts:
                (early if rows.has_all(each) else late).append(each)
            conjuncts = late
            lookup = replace(_lookup(step, rows), only=conjunction(early, rows))
            rows.add(step)
            if step.alias in self._left:
                lookup = replace(lookup, outer=_outer(step, self._left[step.alias], rows))
            lookups.append(lookup)
        scope: RowScope | GroupScope = rows
        if groups is None:
            grouped, ordered, outputs = None, self._ordered, self.projections
        else:
            scope = GroupScope(groups, rows)
            grouped = grouping(groups, rows, scope)
            ordered, outputs = groups.order, groups.projections
        project, types = projection(outputs, scope)
        plan = NativePlan(
            first=steps[0],
            lookups=tuple(lookups),
            predicate=None if exact(steps[0], self.block) else conjunction(conjuncts, rows),
            order=tuple(sort_term(node, scope) for node in ordered),
            delivered=0 if grouped else steps[0].ordered,
            grouping=grouped,
            project=project,
            types=types,
            limit=_row_operand(self.select.args.get("limit")),
            offset=_row_operand(self.select.args.get("offset")),
            first_row_only=first_row_only,
            answers=self.answers,
        )
        if (
            self.columnar
            and plan.gives_what_it_reads
            and not self.answers
            and has_columns(steps[0])
        ):
            return replace(plan, columns=plain_columns(self.projections, rows))
        return plan

    def _groups(self) -> Groups | None:
        """The groups; None if the query returns the rows themselves."""
        keys = self._key_nodes()
        having = self.select.args.get("having")
        if keys:
            conditions = [] if having is None else list(split(having.this))
            return Groups.of(keys, self.projections, self._ordered, conditions)
        if having is not None:
            raise NotNative("HAVING without GROUP BY")
        groups = Groups.of((), self.projections)  # one row needs no ORDER BY
        return groups if groups.aggregates else None

    def _key_nodes(self) -> Sequence[exp.Expr]:
        """The plain columns to group by. DISTINCT groups by the whole SELECT list. Raises NotNative
        for expressions."""
        group, distinct = self.select.args.get("group"), self.select.args.get("distinct")
        if group is not None and any(v for k, v in group.args.items() if k != "expressions"):
            raise NotNative("an unusual GROUP BY")
        if distinct is not None and (group is not None or distinct.args.get("on")):
            raise NotNative("an unusual DISTINCT")
        keys = self.projections
        if distinct is None:
            keys = [self._meant(node) for node in group.expressions] if group else []
        if any("column" not in node.meta for node in keys):
            raise NotNative(f"{'GROUP BY' if distinct is None else 'DISTINCT over'} an expression")
        return keys

    def _steps(self, groups: Groups | None) -> tuple[tuple[Access, ...], bool]:
        ending = None if groups is None or groups.keys else self._end_of_key(groups.aggregates)
        if ending is not None:
            return (ending,), True
        ordered = self._ordered if groups is None else []
        order = list(itertools.takewhile(bool, map(_term, ordered)))
        limited = groups is None and bool(self.select.args.get("limit"))
        places = BlockPlaces(self.select)
        hints = tuple(find_hints(places, self.number, self.block, self.catalog))
        steps = order_joins(
            self.catalog,
            self.block.without(self._left.keys()),
            order=[term for term in order if term],
            limited=limited and len(order) == len(ordered),
            looked_up=True,
            hints=hints,
        )
        steps += tuple(self._left_steps(steps, hints))
        if not nested_loops(steps):
            raise NotNative("a join without a key or index to look up")
        streams = steps[0].ordered == len(ordered) and groups is None
        whole = streams and not self.columnar and not self.select.args.get("limit")
        values = self._values_out(steps) if whole else 0.0
        cost = sum(step.cost for step in steps)
        if groups is not None and groups.keys and GROUPED_COST * cost > self.most_cost:
            raise NotNative("groups of many rows")
        if len(steps) > 1 and cost > self._most(steps, values):
            raise NotNative("a join over many rows")
        return steps, False

    @cached_property
    def _left(self) -> Mapping[str, exp.Expr]:
        """The conditions of the LEFT JOINs by the aliases of their right sides, in their order."""
        joins = filter(is_left, self.select.args.get("joins") or ())
        return {join.this.meta["source"][1]: join.args["on"] for join in joins}

    def _left_steps(self, inner: Iterable[Access], hints: Sequence[Hint]) -> Iterator[Access]:
        """The paths to the right sides of LEFT JOINs, from the sources before them.

        The inner joins of the block run first. That gives the same rows: a LEFT JOIN keeps each row
        of its left side, and its condition names only sources before it. A path reads all rows that
        may be partners: each of its conditions is necessary for the result.
        """
        fetched = {step.alias: step.rows for step in inner}
        for alias in self._left:
            step = Paths(self.catalog, self.block, alias, hints).cheapest(fetched, joined=True)
            fetched[alias] = step.rows
            yield step

    def _most(self, steps: Sequence[Access], values: float) -> float:
        """The maximum cost of a native join: DuckDB's cost with `values` converted to Python
        objects, but at least `most_cost`."""
        hashed = HASH_COST * sum(step.rows for step in steps)
        return max(self.most_cost, hashed + VALUE_COST * values)

    def _values_out(self, steps: Sequence[Access]) -> float:
        """The estimated number of values in the result, rows times columns."""
        used = sum(len(s.equalities) + 3 - (s.low, s.high, s.like).count(None) for s in steps)
        kept = UNUSED_SHARE ** max(len(self.conjuncts) - used, 0)
        return max(step.rows for step in steps) * len(self.projections) * kept

    def _end_of_key(self, aggregates: Sequence[exp.Expr]) -> Access | None:
        """The access path whose first row answers a single MIN or MAX; None if there is none."""
        if len(aggregates) != 1 or len(self.block.sources) != 1:
            return None
        node = aggregates[0]
        if not isinstance(node, exp.Min | exp.Max) or "column" not in node.this.meta:
            return None
        term = Term(node.this.meta["column"][2], descending=isinstance(node, exp.Max))
        alias = self.block.sources[0].alias
        access = choose(self.catalog, self.block, alias, order=[term], limited=True)
        found = access.ordered == 1 and exact(access, self.block)
        return replace(access, rows=1.0) if found else None

    def unlink_copies(self) -> None:
        for node in self.__dict__.get("_ordered", ()):
            unlink(node)

    @cached_property
    def _ordered(self) -> Sequence[exp.Ordered]:
        """The terms of ORDER BY, with output names and ordinals replaced by their expressions."""
        order = self.select.args.get("order")
        return [self._order_node(node) for node in order.expressions] if order else []

    def _order_node(self, node: exp.Expr) -> exp.Ordered:
        if not isinstance(node, exp.Ordered) or node.args.get("with_fill"):
            raise NotNative("an unusual ORDER BY")
        ordered = node.copy()
        supersede(ordered.this, self._meant(node.this).copy())
        return ordered

    def _meant(self, node: exp.Expr) -> exp.Expr:
        """The expression of a term of ORDER BY or GROUP BY, which may be an ordinal or output name.
        Raises NotNative for a constant or an expression over an output column."""
        value = node.unnest()
        if isinstance(value, exp.Literal):
            position = int(value.name) if value.is_int else 0
            if not 0 < position <= len(self.projections):
                raise NotNative("ORDER BY or GROUP BY a constant")
            return self.projections[position - 1]
        if value.meta.get("alias"):
            return self._named()[value.name]
        if any(column.meta.get("alias") for column in nodes_of(value, exp.Column)):
            raise NotNative("an expression over an output column")
        return value

    def _named(self) -> dict[str, exp.Expr]:
        aliases = [node for node in self.select.expressions if isinstance(node, exp.Alias)]
        return {node.alias: node.this for node in reversed(aliases)}


def _lookup(step: Access, scope: RowScope) -> Lookup:
    places = [
        [scope.position(o.alias, o.column) for o in equality.operands if isinstance(o, JoinColumn)]
        for equality in step.equalities
    ]
    if all(len(some) == 1 for some in places):
        pick = getter([position for (position,) in places])

        def key(row: Row, _parameters: Parameters) -> Collection[Key]:
            found = pick(row)
            return () if None in found else (found,)

        return Lookup(step, key)

    def keys(row: Row, parameters: Parameters) -> Collection[Key]:
        choices = []
        for equality, positions in zip(step.equalities, places, strict=True):
            others = [o for o in equality.operands if not isinstance(o, JoinColumn)]
            values = dict.fromkeys(row[position] for position in positions)
            values.update(dict.fromkeys(values_of(others, parameters)))
            values.pop(None, None)  # NULL equals nothing
            choices.append({None: None} if equality.null else values)
        return list(itertools.product(*choices))

    return Lookup(step, keys)


def _outer(step: Access, condition: exp.Expr, rows: RowScope) -> Outer:
    """The outer part of a look-up; `rows` has the columns of its source already."""
    holds = conjunction(list(split(condition)), rows)
    assert holds is not None
    return Outer(holds, (None,) * len(step.output.columns))


def _term(node: exp.Ordered) -> tuple[str, Term] | None:
    """(alias of the source, term) for a plain column of ORDER BY; None for an expression."""
    _, alias, name = node.this.meta.get("column", (None, None, None))
    return None if alias is None else (alias, Term(name, *direction(node)))


def _row_operand(node: exp.Expr | None) -> Any:
    """The constant or parameter of LIMIT or OFFSET; None without the clause. Raises NotNative for
    an expression."""
    if node is None:
        return None
    value = node.args.get("expression")
    if node.args.get("expressions") or node.args.get("limit_options"):
        raise NotNative("an unusual LIMIT")
    if isinstance(value, exp.Placeholder):
        return value.meta["parameter"]
    if isinstance(value, exp.Literal) and value.is_int:
        return int(value.name)
    raise NotNative("LIMIT by an expression")
