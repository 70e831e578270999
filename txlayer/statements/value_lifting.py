"""Values that the expressions of a write take from other places than its row: from subqueries,
columns of FROM, and sequences.

Each is *lifted* out of its expression: a parameter takes its place. The value of the parameter
comes with the row, from one of these sources:

* a column of the search that finds the rows (`BySearch.names`). So come the columns of FROM, and
  the subqueries of SET if the rows are found by a search;
* a query of its own (`ValueQuery`), which has parameters for the columns of the row.

A call of nextval, currval or lastval is a `SequenceValue`, which is called for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from sqlglot import exp

from hornbeam_server.query.binding.binder import OWN
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.parsing.placeholders import named_placeholder
from hornbeam_server.query.parsing.sequence_calls import CALL, NUMBER, SequenceCall, calls_in
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.trees import unlink, unlink_all, written
from hornbeam_server.schema.types import ColumnType
from hornbeam_server.txlayer.statements.sequence_values import SequenceValue
from hornbeam_server.txlayer.statements.write_expressions import LIFTED, ConstantScope, RowScope
from hornbeam_server.txlayer.statements.write_plans import Lifted, Subquery, ValueQuery

_OF_ROW = "__row"
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
Queries = list[Lifted]


class Lifter:
    """Lifts the values of one statement. `types` takes the types of the parameters, as far as they
    are known. `from_`: the statement has FROM or USING."""

    def __init__(
        self,
        alias: str,
        types: dict[int | str, ColumnType | None],
        subquery: Callable[[exp.Expr], Subquery],
        call: Callable[[exp.Anonymous], SequenceCall],
        *,
        from_: bool,
    ) -> None:
        self.searched: dict[str, tuple[str, exp.Expr]] = {}
        """The parameters and expressions that the search for the rows selects. Equal columns have
        one parameter; equal subqueries do not, for they may be random."""
        self._alias = alias
        self._types = types
        self._subquery = subquery
        self._call = call
        self._calls: dict[tuple[int, int], str] = {}
        self.from_ = from_
        self._number = 0
        self._copies: list[exp.Expr] = []

    def lift(
        self,
        node: exp.Expr,
        scope: RowScope | ConstantScope,
        queries: Queries,
        *,
        search: bool = False,
    ) -> exp.Expr:
        """`node` with parameters for its lifted values; `node` itself if it has none. Adds to
        `queries`, or with `search` to `searched`."""
        calls = bool(calls_in(node))
        if not self.from_ and not calls and node.find(exp.Query) is None:
            return node
        root = exp.Paren(this=node.copy())
        called: dict[str, SequenceCall] = {}
        for call in calls_in(root) if calls else ():
            self._replace(call, self._sequence(call, queries, called))
        for part in _with_queries(root):
            value = self._search(part) if search else self._query(part, scope, queries, 1)[0]
            self._replace(part, value)
        if self.from_:
            for column in list(root.find_all(exp.Column)):
                if not self._is_own(column):
                    self._replace(column, self._search(column))
        queries += [SequenceValue.of(each, name, scope, root) for name, each in called.items()]
        self._copies.append(root)
        lifted: exp.Expr = root.this
        return lifted

    def _sequence(
        self, call: exp.Anonymous, queries: Queries, called: dict[str, SequenceCall]
    ) -> exp.Expr:
        """The parameter for a call, which `called` gets. Copies of a call have one value."""
        place = id(queries), call.meta[CALL]
        if place not in self._calls:
            name = self._calls[place] = self._name()
            self._types[name] = NUMBER
            called[name] = self._call(call)
        return named_placeholder(self._calls[place])

    def lift_row(
        self, node: exp.Subquery, width: int, scope: RowScope | ConstantScope, queries: Queries
    ) -> list[exp.Expr]:
        """The parameters for the `width` columns of the one row of a subquery."""
        copy = node.copy()
        self._copies.append(copy)
        return self._query(copy, scope, queries, width)

    def took(self, subquery: Subquery, first: int) -> tuple[str, ...]:
        """The parameters of `searched`, given the search: its columns from number `first` on are
        their values."""
        names = [name for name, _ in self.searched.values()]
        columns = subquery.prepared.columns[first:]
        self._types.update((n, column.type) for n, column in zip(names, columns, strict=True))
        return tuple(names)

    def close(self) -> None:
        """Free the trees of the lifted expressions."""
        for copy in self._copies:
            unlink(copy)
        for _, node in self.searched.values():
            unlink(node)

    def _is_own(self, column: exp.Column) -> bool:
        bound: tuple[int | None, str, str] | None = column.meta.get("column")
        return bound is not None and bound[1] == self._alias

    def _search(self, node: exp.Expr) -> exp.Expr:
        name = self._name()
        place = written(node, NAME) if isinstance(node, exp.Column) else name
        if place not in self.searched:
            self.searched[place] = name, node.copy()
        return named_placeholder(self.searched[place][0])

    def _query(
        self, part: exp.Expr, scope: RowScope | ConstantScope, queries: Queries, width: int
    ) -> list[exp.Expr]:
        """Prepare a query for a subquery, or for an expression around one such as EXISTS."""
        plain = isinstance(part, exp.Subquery) and [k for k, v in part.args.items() if v] == [
            "this"
        ]
        if plain and isinstance(part.this, exp.Select | exp.SetOperation):
            query = part.this.copy()
        else:
            query = exp.select(part.copy(), copy=False)
        row: dict[str, int] = {}
        for column in list(query.find_all(exp.Column)):
            if OWN in column.meta:
                self._replace(column, self._outer(column, scope, row))
        subquery = self._subquery(query)
        found = subquery.prepared.columns
        if len(found) != width:
            raise SqlError(
                f"A subquery gives {len(found)} columns for {width}: {written(part, NAME)}.",
                cure="Select one column for each column that is assigned.",
            )
        names = tuple(self._name() for _ in found)
        self._types.update(zip(names, (column.type for column in found), strict=True))
        queries.append(ValueQuery(subquery, names, tuple(row.items())))
        return [named_placeholder(name) for name in names]

    def _outer(
        self, column: exp.Column, scope: RowScope | ConstantScope, row: dict[str, int]
    ) -> exp.Expr:
        """The parameter for a column of the statement's row inside a query. It has the column's
        type by a cast, unless it is compared with a column: that comparison can be a look-up."""
        type_: ColumnType | None = column.meta[OWN]
        if self.from_ and not self._is_own(column):
            value = self._search(column)
        else:
            position, _ = scope.resolve(column)
            name = f"{_OF_ROW}{position}"
            row[name] = position
            value = named_placeholder(name)
        parent = column.parent
        sides = (parent.this, parent.expression) if isinstance(parent, _COMPARISONS) else ()
        compared = any(isinstance(side, exp.Column) and OWN not in side.meta for side in sides)
        if type_ is None or compared:
            return value
        return exp.cast(value, type_.sql(), dialect="duckdb", copy=False)

    def _name(self) -> str:
        self._number += 1
        return f"{LIFTED}{self._number}"

    @staticmethod
    def _replace(old: exp.Expr, new: exp.Expr) -> None:
        old.replace(new)
        unlink_all([*old.walk()])


def _with_queries(node: exp.Expr) -> list[exp.Expr]:
    """The smallest expressions that contain the outermost queries of `node` and are values: a
    scalar subquery, EXISTS, IN, or a comparison with ANY or of rows."""
    queries = node.walk(prune=lambda each: isinstance(each, exp.Query))
    found = {id(value): value for each in queries if (value := _value_around(each)) is not None}
    return [each for each in found.values() if not _is_inside(each, found)]


def _value_around(query: exp.Expr) -> exp.Expr | None:
    if not isinstance(query, exp.Query):
        return None
    around = query.parent
    assert around is not None, "the root of the expression is in parentheses"
    if isinstance(around, exp.Any | exp.All):
        return around.parent
    if isinstance(around, _COMPARISONS):
        sides = around.this.unnest(), around.expression.unnest()
        return around if any(isinstance(side, exp.Tuple) for side in sides) else query
    return query if isinstance(query, exp.Subquery) and query.arg_key != "query" else around


def _is_inside(node: exp.Expr, others: Container[int]) -> bool:
    parent = node.parent
    while parent is not None and id(parent) not in others:
        parent = parent.parent
    return parent is not None
