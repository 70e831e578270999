"""Translation of a bound SELECT to the operators of the algebra.

Names are resolved from the metadata that `query/binding/binder.py` attaches to the tree. Conditions
that read only one FROM item are applied to it before it is joined (unless an outer join forbids
it). Equalities of two columns become join keys. [NOT] EXISTS and [NOT] IN in the WHERE become semi
and anti joins. A scalar subquery becomes a join with its only row. A correlated scalar subquery is
grouped by the expressions that it equates with outer columns, and becomes a join with its groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from sqlglot import exp

from hornbeam_server.maintain.deltas.algebra import (
    Aggregate,
    Join,
    JoinKind,
    Map,
    Node,
    Partition,
    Recursion,
    Scan,
    Union,
)
from hornbeam_server.maintain.deltas.calls import Calls, Output, by_rules
from hornbeam_server.maintain.deltas.clock import clock_value, over_clock, value_of
from hornbeam_server.maintain.deltas.decided import NUMBER, decide_call, decide_rows, windows_of
from hornbeam_server.maintain.deltas.expressions import (
    Scope,
    aggregates_in,
    all_of,
    column,
    conjuncts,
    has_on,
    is_windowed,
    limited,
    names_in,
    no_subquery,
    plain,
    refused,
    rename,
    text,
)
from hornbeam_server.maintain.deltas.from_clause import Cte, Ctes, FromClause, Lateral
from hornbeam_server.maintain.deltas.grouping_sets import (
    MAX_SETS,
    grouping_sets,
    has_sets,
    of_set,
)
from hornbeam_server.maintain.deltas.operators import (
    bound_of,
    bounds_of,
    check_keys,
    check_null_safe,
    filtered,
    join_shape,
    mapped,
    named,
    pair_of,
    passed_on,
    prefixed,
    renamed,
)
from hornbeam_server.maintain.deltas.recursions import is_recursive, recursion_of
from hornbeam_server.maintain.deltas.relations import WEIGHT, Field, Fields, describe, stored_fields
from hornbeam_server.maintain.deltas.scalar_values import (
    Values,
    condition_over,
    correlation,
    is_open,
    value_over_nothing,
    with_values,
)
from hornbeam_server.maintain.deltas.select_parts import (
    is_aggregated,
    is_distinct,
    is_null_over_nothing,
    is_of_rows,
    is_one_row,
    parted,
    scalars,
    star_of,
    used_columns,
)
from hornbeam_server.maintain.deltas.set_operations import combined, distinct_rows
from hornbeam_server.maintain.deltas.windows import (
    FIRST,
    common_partition,
    is_among,
    over_columns,
    place_of_row,
    windowed,
    windows_in,
)
from hornbeam_server.query.binding.binder import output_name
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.query.dialect.functions import is_aggregate
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.trees import nodes_of
from hornbeam_server.schema.types import REAL, Kind

_VALUES = (exp.Binary, exp.Paren, exp.Between)
"""The parents of a subquery that is used as a value in a condition."""
NO_KEYS: Mapping[str, exp.Expr] = MappingProxyType({})
NO_VALUES: Mapping[int, exp.Expr] = MappingProxyType({})


class Translator:
    """Translates the SELECT of one view. A scan of a relation has the columns that the statement
    names through its alias, and the primary key."""

    def __init__(self, tree: exp.Expr, sql: str, catalog: Catalog) -> None:
        self.sql = sql
        self.catalog = catalog
        self._aliases: set[str] = set()
        self._used = used_columns(tree)
        self.averaged: set[int] = set()
        """The numbers of the calls that have delta rules."""
        self._now = cache(clock_value)
        self._calls = [each for each in nodes_of(tree, exp.Func) if is_aggregate(each)]
        for number, call in enumerate(self._calls):
            call.meta[NUMBER] = number

    # -- queries

    def query(self, node: exp.Expr, ctes: Ctes, *, keep_unique: bool = False) -> Map:
        """A whole query; the fields are its output columns. `keep_unique` appends the columns that
        identify a row, if there are any."""
        match node:
            case exp.Select():
                return self._select(node, self._ctes(node, ctes), keep_unique)
            case exp.SetOperation():
                return self._set_operation(node, self._ctes(node, ctes))
            case exp.Subquery():
                return self.query(node.this, self._ctes(node, ctes), keep_unique=keep_unique)
        raise refused(type(node).__name__.upper(), node, self.sql, "Write a SELECT.")

    def _ctes(self, node: exp.Expr, ctes: Ctes) -> Ctes:
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        known = dict(ctes)
        for cte in with_.expressions:
            known[cte.alias] = Cte(cte, dict(known), is_recursive(with_, cte))
        return known

    def recursion(self, cte: Cte) -> Recursion:
        return recursion_of(self, cte)

    def _set_operation(self, node: exp.SetOperation, ctes: Ctes) -> Map:
        if node.args.get("by_name"):
            raise refused("UNION BY NAME", node, self.sql, "Order the columns alike.")
        parts = [self.query(part, ctes) for part in (node.this, node.expression)]
        return self._named_like(parts[0], combined(node, self._alike(parts)))

    def _named_like(self, first: Map, found: Node) -> Map:
        """The rows of `found` with the names of another operator's columns."""
        pairs = zip(first.fields, found.fields, strict=True)
        return renamed(found, {theirs.name: mine.name for theirs, mine in pairs})

    def _alike(self, parts: Sequence[Map]) -> list[Map]:
        """The inputs with the same fields, of types that hold the values of all of them."""
        selects = [f"SELECT {_columns(part.fields)} FROM p{i}" for i, part in enumerate(parts)]
        tables = {f"p{i}": part.fields for i, part in enumerate(parts)}
        types = describe(" UNION ALL ".join(selects), tables)
        prefix = self.alias("both")
        fields = tuple(named(field, f"{prefix}.{field.name}") for field in types)
        return [
            mapped(part, [
                (field, f"CAST({quoted(own.name)} AS {field.duck})", None)
                for field, own in zip(fields, part.fields, strict=True)
            ])
            for part in parts
        ]  # fmt: skip

    def _select(self, node: exp.Select, ctes: Ctes, keep_unique: bool) -> Map:
        scope = Scope(self.sql)
        decide_rows(node, self.sql)
        base, correlated = self._from_where(node, ctes, scope)
        if correlated:
            raise self.further_out(node)
        grouped = is_aggregated(node)
        values: dict[int, exp.Expr] = {}
        for i, projection in enumerate(node.expressions if not grouped else ()):
            if scalars(projection):
                found = [self._only_values(each, ctes, scope) for each in scalars(projection)]
                base, values[i] = with_values(self.join, projection, found, base, scope)
        outputs = self._outputs(node, scope, values)
        if has_on(node):
            if any(windows_of(node)):
                raise refused(
                    "DISTINCT ON beside a window function", node, self.sql,
                    "Compute the window in a subquery in FROM.",
                )  # fmt: skip
            outputs.append((FIRST, self._first(node, outputs, scope)))
        if has_sets(node.args.get("group")):
            result = self._by_sets(node, base, outputs, ctes, scope)
        elif grouped:
            keys = self._group_keys(node, outputs, scope)
            result = self._aggregated(node, base, outputs, keys, ctes, scope)
        else:
            result = self._projected(base, outputs)
        if is_distinct(node):
            distinct = distinct_rows(result)
            return renamed(distinct, {f.name: f.name for f in distinct.fields})
        return self._with_unique(result) if keep_unique else result

    def _by_sets(
        self, node: exp.Select, base: Node, outputs: Sequence[Output], ctes: Ctes, scope: Scope
    ) -> Map:
        """GROUPING SETS: the union of a GROUP BY for each."""
        sets = [
            [self._group_key(key, outputs, scope).unnest() for key in keys]
            for keys in grouping_sets(node.args["group"])
        ]
        if len(sets) > MAX_SETS or any(windows_of(node)):
            raise refused(
                f"GROUP BY with {len(sets)} grouping sets, or beside a window function,", node,
                self.sql, f"Write at most {MAX_SETS} sets, and the window in an outer SELECT.",
            )  # fmt: skip
        every = {text(key): key for keys in sets for key in keys}
        types = self._map(base, list(every.items())).fields
        nulls = {f.name: exp.cast(exp.Null(), f.duck, dialect="duckdb") for f in types}
        parts = []
        for keys in sets:
            own = {text(key): key for key in keys}
            missing = {sql: null for sql, null in nulls.items() if sql not in own}
            grouped = (list(own.values()), ctes, scope, missing)
            parts.append(self._aggregated(node, base, outputs, *grouped))
        alike = self._alike(parts)
        return self._named_like(parts[0], Union(tuple(alike), alike[0].fields))

    def _first(self, node: exp.Select, outputs: Sequence[Output], scope: Scope) -> exp.Expr:
        """The place of a row among those of which DISTINCT ON keeps the first."""
        on = node.args["distinct"].args["on"]
        first = on.expressions if isinstance(on, exp.Tuple) else [on]
        keys = [self._group_key(part, outputs, scope) for part in first]
        return self._place(node, keys, outputs, scope)

    def _place(
        self, node: exp.Select, keys: Sequence[exp.Expr], outputs: Sequence[Output], scope: Scope
    ) -> exp.Expr:
        """The place of a row, by ORDER BY, among those with the same `keys`."""
        ordered = node.args["order"].expressions
        values = [self._group_key(part.this, outputs, scope) for part in ordered]
        return place_of_row(keys, ordered, values)

    def lateral(self, node: exp.Lateral, ctes: Ctes, outer: Scope) -> Lateral:
        """The rows of a LATERAL subquery that equates its own expressions with outer columns."""
        query, scope = node.this.this, Scope(self.sql, outer)
        if not isinstance(query, exp.Select) or (is_aggregated(query) and not is_one_row(query)):
            raise refused(
                "This LATERAL subquery", node, self.sql, "Join with it, grouped, in FROM."
            )
        decide_rows(query, self.sql)
        known = self._ctes(query, ctes)
        base, correlated = self._from_where(query, known, scope)
        outputs = self._outputs(query, scope)
        pairs = [correlation(part, scope, node) for part in correlated]
        keys = list({text(mine): mine for mine, _ in pairs}.values())
        shown = [*((f"?{i}", mine) for i, (mine, _) in enumerate(pairs)), *outputs]
        theirs = [other for _, other in pairs]
        if is_one_row(query):
            if not pairs or not all(is_null_over_nothing(value) for _, value in outputs):
                raise refused(
                    "A LATERAL aggregate that has a value where it finds no rows", node, self.sql,
                    "Write it as a column: (SELECT …).",
                )  # fmt: skip
            return Lateral(self._aggregated(query, base, shown, keys, known, scope), theirs, True)
        if query.args.get("distinct") or any(windows_of(query)):
            raise refused("LATERAL with DISTINCT or windows", node, self.sql, "Join in FROM.")
        rows = limited(query)
        if rows is not None:
            shown.append((FIRST, self._place(query, keys, outputs, scope)))
        return Lateral(self._projected(base, shown, 1 if rows is None else rows), theirs, False)

    def _projected(self, node: Node, outputs: Sequence[Output], rows: int = 1) -> Map:
        """A projection whose expressions may have windows. If the last output is `FIRST`, only the
        first `rows` rows of each partition."""
        windows = windows_in(value for _, value in outputs)
        if not windows:
            return self._map(node, outputs)
        by, prefix = common_partition(windows.values(), self.sql), self.alias("window")
        keys = [(plain(part) or f"{prefix}.by{i}", part) for i, part in enumerate(by)]
        names = {sql: f"{prefix}.{i}" for i, sql in enumerate(windows)}
        parts = (*windows.values(), *(value for _, value in outputs))
        read = [name for part in parts for name in sorted(names_in(part))]
        found = windowed(self._kept(node, keys, read), [name for name, _ in keys], {
            names[sql]: window for sql, window in windows.items()
        })  # fmt: skip
        values = [(name, over_columns(value, names)) for name, value in outputs]
        if values[-1][0] != FIRST:
            return self._map(found, values)
        chosen = filtered(found, [is_among(rows, values[-1][1])])
        assert isinstance(chosen, Map)
        unique = frozenset(found.by) if rows == 1 else chosen.unique
        return self._map(replace(chosen, unique=unique), values[:-1])

    def _with_unique(self, result: Map) -> Map:
        """The same rows with the columns that identify them appended as hidden columns."""
        unique = result.input.unique
        if unique is None or result.unique is not None:
            return result
        given = set(result.passes.values())
        missing = [f for f in result.input.fields if f.name in unique and f.name not in given]
        prefix = self.alias("hidden")
        fields = tuple(named(field, f"{prefix}.{field.name}") for field in missing)
        passes = result.passes | {
            hidden.name: field.name for hidden, field in zip(fields, missing, strict=True)
        }
        return Map(
            result.input,
            (*result.fields, *fields),
            (*result.expressions, *(quoted(field.name) for field in missing)),
            result.where,
            passes,
            passed_on(unique, passes),
        )

    def _outputs(
        self, node: exp.Select, scope: Scope, values: Mapping[int, exp.Expr] = NO_VALUES
    ) -> list[Output]:
        """The output columns. `values` replace output columns, by number."""
        outputs: list[Output] = []
        for i, projection in enumerate(node.expressions):
            star = star_of(projection)
            if star is not None:
                outputs += self._starred(star, scope)
                continue
            written = values.get(i, projection)
            self.no_subquery(written)
            value = rename(written.unalias(), scope)
            outputs.append((output_name(projection), value))
            if isinstance(projection, exp.Alias):
                scope.aliased.setdefault(projection.alias, value)
        names = [name.lower() for name, _ in outputs]  # DuckDB's names are case-insensitive
        for name in names:
            if names.count(name) > 1 or name == WEIGHT:
                what = "is called" if name == WEIGHT else "and another one are called"
                raise Unsupported(
                    f"A column {what} {name}{at(node, self.sql)}.", cure="Name it with AS."
                )
        return outputs

    def _starred(self, star: exp.Star, scope: Scope) -> Iterator[Output]:
        if star.args.get("replace"):
            raise refused("* REPLACE", star, self.sql, "Name the columns.")
        for _, alias, name, _, output in star.meta["columns"]:
            found = scope.find(alias, name) if alias else None
            if found is None:
                raise Unsupported(
                    f"* stands for a column without a certain name{at(star, self.sql)}.",
                    cure="Name the columns, and give every subquery in FROM an alias.",
                )
            yield output, column(found)

    def no_subquery(self, node: exp.Expr) -> None:
        no_subquery(node, self.sql)

    # -- FROM and WHERE

    def _from_where(
        self, node: exp.Select, ctes: Ctes, scope: Scope
    ) -> tuple[Node, list[exp.Expr]]:
        """FROM and WHERE of one SELECT, and the conditions that also read an outer SELECT."""
        for clause in ("qualify", "windows", "laterals", "connect", "sample", "pivots"):
            if node.args.get(clause):
                raise refused(clause.upper(), node, self.sql, "")
        origin = node.args.get("from_")
        if origin is None:
            raise Unsupported(
                f"A SELECT reads no relation{at(node, self.sql)}.", cure="Write FROM."
            )
        where = node.args.get("where")
        pool = list(conjuncts(where.this if where is not None else None))
        from_ = FromClause(self, ctes, scope)
        from_.plan(origin.this, node.args.get("joins") or ())
        simple, nested = parted(pool)
        parts = [rename(part, scope) for part in simple]
        for part in parts:
            if aggregates_in(part):
                raise Unsupported("WHERE cannot contain an aggregate.", cure="Write HAVING.")
        local = [part for part in parts if names_in(part) <= scope.own]
        correlated = [part for part in parts if not names_in(part) <= scope.own]
        base = from_.join(local)
        for part in nested:
            base = self._nested(part, base, ctes, scope)
        return base, correlated

    def _nested(self, part: exp.Expr, base: Node, ctes: Ctes, scope: Scope) -> Node:
        """Apply one condition that has a subquery to `base`, as a join."""
        negated = isinstance(part, exp.Not)
        inner = part.this.unnest() if isinstance(part, exp.Not) else part
        if isinstance(inner, exp.Exists):
            right, on = self._inner_rows(inner.this, (), ctes, scope)
            kind = JoinKind.ANTI if negated else JoinKind.SEMI
            return self.join(kind, base, right, on, part)
        if isinstance(inner, exp.In) and inner.args.get("query") is not None:
            values = inner.this.expressions if isinstance(inner.this, exp.Tuple) else [inner.this]
            for value in values:
                self.no_subquery(value)
            left = [rename(value, scope) for value in values]
            right, on = self._inner_rows(inner.args["query"], left, ctes, scope)
            if negated:
                check_null_safe(part, on[-len(left) :], base.field | right.field, self.sql)
            return self.join(JoinKind.ANTI if negated else JoinKind.SEMI, base, right, on, part)
        found = scalars(part)
        if not found:
            self.no_subquery(part)
        values = [self._only_values(each, ctes, scope) for each in found]
        if isinstance(found[0].parent, _VALUES) and not is_open(part, found, values):
            on = [*values[0].equal, condition_over(part, values[0], scope)]
            return self._compared(part, base, values[0].rows, on)
        joined, condition = with_values(self.join, part, values, base, scope)
        chosen = filtered(joined, [rename(condition, scope)])
        return renamed(chosen, {field.name: field.name for field in base.fields})

    def _inner_rows(
        self,
        query: exp.Expr,
        left: Sequence[exp.Expr],
        ctes: Ctes,
        outer: Scope,
    ) -> tuple[Node, list[exp.Expr]]:
        """Rows of a subquery of EXISTS or IN, and the conditions on these rows and an outer row.
        `left` are the values before IN, which are equated with the subquery's columns."""
        query = query.this if isinstance(query, exp.Subquery) else query
        rows = isinstance(query, exp.Select) and not any(windows_of(query))
        if isinstance(query, exp.Select) and rows and not is_aggregated(query):
            scope = Scope(self.sql, outer)
            known = self._ctes(query, ctes)
            node, on = self._from_where(query, known, scope)
            inner = [v for _, v in self._outputs(query, scope)] if left else []
        else:
            node = prefixed(self.query(query, ctes), self.alias("subquery"))
            on, inner = [], [column(field.name) for field in node.fields]
        if left and len(inner) != len(left):
            raise Unsupported(
                f"IN compares {len(left)} values with {len(inner)}.",
                cure="Select as many columns as stand before IN.",
            )
        equal: list[exp.Expr] = [
            exp.EQ(this=a.copy(), expression=b.copy()) for a, b in zip(left, inner, strict=False)
        ]
        return node, [*on, *equal]

    def _value(
        self, part: exp.Expr, ctes: Ctes, scope: Scope
    ) -> tuple[Node, list[exp.Expr]]:  # fmt: skip
        """The scalar subquery in a condition on groups, as rows, one for each value of the outer
        columns that it reads; and the conditions on these rows and a group, `part` last."""
        found = scalars(part)
        if len(found) != 1 or not isinstance(found[0].parent, _VALUES):
            self.no_subquery(part)
        value = self._only_values(found[0], ctes, scope)
        if is_open(part, found, [value]):
            raise Unsupported(
                f"A subquery that reads an outer SELECT is not compared{at(found[0], self.sql)}.",
                cure="Compare it with =, <>, <, <=, > or >=, by itself or in a sum or product.",
            )
        return value.rows, [*value.equal, condition_over(part, value, scope)]

    def _compared(
        self, part: exp.Expr, base: Node, value: Node, on: Sequence[exp.Expr]
    ) -> Node:  # fmt: skip
        join = self.join(JoinKind.SEMI, base, value, on, part)
        if not join.one_right:
            return join
        return replace(join, bound=bound_of(on[-1], base, value), ranges=())

    def _only_values(self, subquery: exp.Subquery, ctes: Ctes, scope: Scope) -> Values:
        """The values of a scalar subquery, by the expressions that it equates with outer columns:
        the groups of an aggregate, or the rows of a key."""
        query, prefix = subquery.this, self.alias("subquery")
        moment = value_of(subquery)
        if moment is not None:
            value = self._map(self._now(), [("moment", over_clock(moment))])
            return Values(prefixed(value, prefix), [], None)
        keys: dict[str, exp.Expr] = {}
        equal: list[exp.Expr] = []
        nothing: exp.Expr | None = None
        one_row = isinstance(query, exp.Select) and is_one_row(query)
        if isinstance(query, exp.Select) and (one_row or is_of_rows(query)):
            inner = Scope(self.sql, scope)
            decide_rows(query, self.sql)
            known = self._ctes(query, ctes)
            base, correlated = self._from_where(query, known, inner)
            outputs = self._outputs(query, inner)
            pairs = [correlation(each, inner, subquery) for each in correlated]
            keys = {text(mine): mine for mine, _ in pairs}
            names = {sql: f"key{i}" for i, sql in enumerate(keys)}
            equal = [
                exp.EQ(this=theirs.copy(), expression=column(f"{prefix}.{names[text(mine)]}"))
                for mine, theirs in pairs
            ]
            shown = [*((names[sql], key) for sql, key in keys.items()), *outputs]
            if one_row:
                nothing = value_over_nothing(outputs[-1][1], subquery, self.sql) if equal else None
                rows = self._aggregated(query, base, shown, list(keys.values()), known, inner)
            else:
                rows = self._map(base, shown)
                one = base.unique is not None and base.unique <= set(map(plain, keys.values()))
                keys = keys if one else {}
        else:
            rows = self.query(query, ctes)
        node = prefixed(rows, prefix)
        if len(node.fields) != len(keys) + 1 or not (keys or node.unique == frozenset()):
            raise Unsupported(
                f"A subquery used as a value may have several rows{at(subquery, self.sql)}.",
                cure="Write an aggregate without GROUP BY.",
            )
        return Values(node, equal, nothing)

    def join(
        self, kind: JoinKind, left: Node, right: Node, on: Sequence[exp.Expr], place: exp.Expr
    ) -> Join:
        """A join; `on` may name both sides. Conditions that read only the right side filter it
        first: outer, semi and anti joins keep or drop left rows by the remaining partners."""
        known = left.field | right.field
        for part in on:
            self.no_subquery(part)
            if not names_in(part) <= set(known):
                raise self.further_out(place)
        right_names = set(right.field)
        right = filtered(right, [part for part in on if names_in(part) <= right_names])
        both = [part for part in on if not names_in(part) <= right_names]
        pairs = [pair_of(part, left, right) for part in both]
        keys = tuple(dict.fromkeys(pair for pair in pairs if pair is not None))
        rest = [part for part, pair in zip(both, pairs, strict=True) if pair is None]
        for name in itertools.chain.from_iterable(keys):
            check_keys((known[name],), "a join")
        ranges = () if keys else [b for part in rest for b in bounds_of(part, left, right)]
        shape = join_shape(kind, left, right, keys)
        return Join(kind, left, right, keys, all_of(rest), *shape, ranges=tuple(ranges))

    def further_out(self, place: exp.Expr) -> Unsupported:
        return Unsupported(
            f"A condition reads an outer SELECT{at(place, self.sql)}.", cure="Join in FROM."
        )

    # -- aggregation

    def _aggregated(
        self,
        node: exp.Select,
        base: Node,
        outputs: Sequence[Output],
        keys: Sequence[exp.Expr],
        ctes: Ctes,
        scope: Scope,
        missing: Mapping[str, exp.Expr] = NO_KEYS,
    ) -> Map:
        """The groups of a SELECT. `missing` are the keys of other grouping sets: their text → NULL
        of their type."""
        having = node.args.get("having")
        simple, nested = parted(conjuncts(having.this if having is not None else None))
        calls = Calls(self.alias("call"), self.sql)
        prefix = self.alias("group")
        group_names = [f"{prefix}.{plain(key) or i}" for i, key in enumerate(keys)]
        replaced = {text(key.unnest()): name for key, name in zip(keys, group_names, strict=True)}

        def replace(part: exp.Expr) -> exp.Expr:
            name = replaced.get(text(part.unnest()))
            if name is not None:
                return column(name)
            absent = of_set(part, missing)
            if absent is not None:
                return absent
            if is_windowed(part) or not (isinstance(part, exp.Filter) or is_aggregate(part)):
                return part
            ruled = by_rules(part)
            return column(calls.name(part)) if ruled is None else ruled.transform(replace)

        values = [(name, value.copy().transform(replace)) for name, value in outputs]
        where = [rename(part, scope).transform(replace) for part in simple]
        compared = []
        for part in nested:
            value, on = self._value(part, ctes, scope)
            compared.append((part, value, [each.transform(replace) for each in on]))
        if not keys and node.args.get("group") and not missing:
            raise refused("An empty GROUP BY", node, self.sql, "Leave it out.")
        aggregate = self._groups(base, list(zip(group_names, keys, strict=True)), calls, node)
        for each in [*(v for _, v in values), *where]:
            if not names_in(each) <= set(aggregate.field):
                unknown = sorted(names_in(each) - set(aggregate.field))
                raise Unsupported(f"{unknown[0]} is neither grouped nor aggregated.")
        result = filtered(aggregate, where)
        for part, value, on in compared:
            result = self._compared(part, result, value, on)
        return self._projected(result, values)

    def _groups(
        self, base: Node, keys: Sequence[Output], calls: Calls, place: exp.Expr
    ) -> Aggregate | Partition:
        """The groups with their aggregates: by delta rules, or else computed again."""
        below = [*keys, *calls.arguments()]
        inner = self._map(base, below or [("nothing", exp.Literal.number(1))])
        groups = inner.fields[: len(keys)]
        check_keys(groups, "GROUP BY")
        cause = calls.without_rule(inner)
        if cause is None:
            self.averaged.update(calls.numbers)
            return calls.aggregate(inner, groups)
        if not keys:
            raise Unsupported(
                f"{cause} over all rows would be computed again from all of them in each"
                f" batch{at(place, self.sql)}.",
                cure="GROUP BY a column, or write WITH (refresh = 'recompute').",
            )
        inner = self._kept(base, keys, calls.columns)
        found = calls.partition(inner, groups, cause)
        for number in calls.numbers:
            decide_call(self._calls[number], number in calls.doubles)
        return found

    def _kept(self, base: Node, keys: Sequence[Output], read: Sequence[str]) -> Map:
        """The rows that a partition keeps: `keys`, the columns `read`, and those that identify a
        row."""
        given = {name for name, _ in keys}
        names = dict.fromkeys([*read, *sorted(base.unique or ())])
        return self._map(base, [*keys, *((n, column(n)) for n in names if n not in given)])

    def _group_keys(
        self, node: exp.Select, outputs: Sequence[Output], scope: Scope
    ) -> list[exp.Expr]:
        group = node.args.get("group")
        if group is None:
            return []
        if group.args.get("all"):
            found = [value for _, value in outputs if not aggregates_in(value)]
        else:
            found = [self._group_key(part, outputs, scope) for part in group.expressions]
        return list({text(key.unnest()): key.unnest() for key in found}.values())

    def _group_key(
        self, part: exp.Expr, outputs: Sequence[Output], scope: Scope
    ) -> exp.Expr:  # fmt: skip
        self.no_subquery(part)
        if isinstance(part, exp.Literal) and not part.is_string:
            return outputs[int(part.name) - 1][1]
        return rename(part, scope)

    # -- building

    def _map(self, node: Node, outputs: Sequence[Output]) -> Map:
        """A projection, with types as DuckDB describes them."""
        texts = [text(value) for _, value in outputs]
        columns = ", ".join(
            f"{sql} AS {quoted(n)}" for sql, (n, _) in zip(texts, outputs, strict=True)
        )
        types = describe(f"SELECT {columns} FROM t", {"t": node.fields})
        parts: list[tuple[Field, str, str | None]] = []
        for (name, value), sql, described in zip(outputs, texts, types, strict=True):
            source = plain(value)
            if source is not None:
                parts.append((named(node.field[source], name), quoted(source), source))
                continue
            double = described.type.kind is Kind.DOUBLE
            # Adding 0.0 removes negative zero, so that keys and rows agree.
            written = f"({sql}) + 0.0" if double else sql
            exact = double and described.type != REAL
            computed = written if exact else f"CAST({written} AS {described.duck})"
            parts.append((named(described, name), computed, None))
        return mapped(node, parts)

    def alias(self, alias: str) -> str:
        """The prefix of the column names of a FROM item: its alias, made unique in DuckDB's
        case-insensitive comparison, and without dots (a dot ends the prefix)."""
        bare = alias.replace(".", "_")
        free = (f"{bare}#{number}" if number > 1 else bare for number in itertools.count(1))
        found = next(name for name in free if name.lower() not in self._aliases)
        self._aliases.add(found.lower())
        return found

    def scan(self, relation: str, alias: str) -> tuple[Scan, dict[str, str]]:
        """A relation with its used columns, and column → name in the algebra."""
        found = self.catalog.schema.relation(relation)
        if WEIGHT in found.positions:
            raise Unsupported(f"{relation} has a column {WEIGHT}.", cure="Rename it.")
        prefix = self.alias(alias)
        used = self._used.get(alias, set()) | set(found.primary_key)
        kept = [c for c in found.columns if c.name in used]
        names = {c.name: f"{prefix}.{c.name}" for c in kept}
        fields = tuple(named(field, names[field.name]) for field in stored_fields(kept))
        unique = frozenset(names[name] for name in found.primary_key)
        return Scan(relation, tuple(names), fields, unique), names


def _columns(fields: Fields) -> str:
    return ", ".join(quoted(field.name) for field in fields)
