"""Write plans: INSERT, UPDATE and DELETE compiled once per text and catalog version.

A plan has closures over rows and parameters, so no SQL is read when it runs. `query.expressions`
defines the meaning of scalar expressions. Expressions that it does not compile are evaluated by
DuckDB, row by row (`query.duckdb.scalar`), with the same meaning.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Parameter
from hornbeam_server.query.binding.binder import BoundQuery, bind, bind_tree
from hornbeam_server.query.binding.constants import comparable, fold, named_type
from hornbeam_server.query.binding.parameters import Reader, read, readers, with_literals
from hornbeam_server.query.binding.parse import OVERRIDING
from hornbeam_server.query.dialect.functions import DISPLAY, makes_or_takes_rows
from hornbeam_server.query.duckdb.scalar import evaluate
from hornbeam_server.query.engine import PreparedQuery, QueryEngine
from hornbeam_server.query.expressions import compile_expression
from hornbeam_server.query.expressions.parameters import parameter_key
from hornbeam_server.schema.catalog import Catalog, Index
from hornbeam_server.schema.errors import SqlError, TypeMismatch, UnknownName, Unsupported
from hornbeam_server.schema.model import Column, DefaultKind, Relation
from hornbeam_server.schema.trees import unlink, written
from hornbeam_server.schema.types import ColumnType, Kind, Row, Value
from hornbeam_server.txlayer.transactions.requests import Parameters

Scalar = Callable[[Row, Parameters], Value]


@dataclass(frozen=True, slots=True)
class Assignment:
    """Column number `position` takes the value of `scalar`, coerced to the column's type."""

    position: int
    column: Column
    scalar: Scalar
    exact: bool = False
    """The value is a parameter that is bound with the column's type, so it is not coerced."""

    def value(self, row: Row, parameters: Parameters) -> Value:
        value = self.scalar(row, parameters)
        if self.exact:
            return value
        try:
            return assigned(value, self.column.type)
        except TypeMismatch as error:
            error.message = f"Column {self.column.name}: {error.message}"
            raise


@dataclass(frozen=True, slots=True)
class Defaulted:
    """SET … = DEFAULT: column number `position` takes its default."""

    position: int
    column: Column


Assignments = tuple[Assignment | Defaulted, ...]


_MOMENTS = {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}


def assigned_moment(value: Value, kind: Kind) -> Value:
    """The date or timestamp `value` of an expression, cast to `kind` as DuckDB casts it in a
    session in UTC: an instant is expressed in UTC, and a DATE takes its day.

    Other values stay as they are. Parameters are not cast: a superfluous or missing time zone is
    their sender's mistake.
    """
    if kind not in _MOMENTS or not isinstance(value, dt.date):
        return value
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    instant = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    if kind is Kind.DATE:
        return instant.date()
    return instant if kind is Kind.TIMESTAMPTZ else instant.replace(tzinfo=None)


def assigned(value: Value, type_: ColumnType) -> Value:
    """The value of an expression, coerced to `type_`. Raises TypeMismatch, also for text as BLOB:
    only parameters are decoded from Base64."""
    if type_.kind is Kind.BYTES and isinstance(value, str):
        raise TypeMismatch(
            "text is not a value of type BLOB",
            cure=r"write '\x…' (hexadecimal), CAST(… AS BYTEA), or decode(…, 'base64')",
            type=type_.sql(),
        )
    return type_.coerce(value)


@dataclass(frozen=True, slots=True)
class Returning:
    """RETURNING: the names, SQL types and scalars of its columns. Scalars are over the written
    row."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    scalars: tuple[Scalar, ...]

    def row(self, row: Row, parameters: Parameters) -> Row:
        return tuple(scalar(row, parameters) for scalar in self.scalars)


@dataclass(frozen=True, slots=True)
class Subquery:
    """A query that is part of a write statement. `uses` maps the names of its parameters to the
    parameters of the statement."""

    prepared: PreparedQuery
    uses: Mapping[str, int | str]

    def parameters(self, parameters: Parameters) -> dict[str, Value]:
        values: Any = parameters  # keys are names for a mapping, numbers for a sequence
        return {name: values[key] for name, key in self.uses.items()}


@dataclass(frozen=True, slots=True)
class ByKey:
    """A WHERE that fixes the whole primary key. `residual` is the rest of the condition."""

    key: tuple[Assignment, ...]
    residual: Scalar | None

    def values(self, parameters: Parameters) -> tuple[Value, ...] | None:
        """The values of the key, or None when no row can have them. Raises TypeMismatch."""
        key = []
        for part in self.key:
            wanted = part.scalar((), parameters)
            value = wanted if part.exact else _as_key(part.column.type, wanted)
            if value is None:
                return None
            key.append(value)
        return tuple(key)


def _as_key(type_: ColumnType, wanted: Value) -> Value:
    """`wanted` as a value of `type_`. None if it equals no such value: NULL, a fraction for an
    integer, or more digits or characters than the column has. Raises TypeMismatch."""
    try:
        value = type_.coerce(wanted)
    except TypeMismatch:
        if isinstance(wanted, str) is not (type_.kind is Kind.TEXT):
            raise
        return None
    return value if value == type_.comparand(wanted) else None


@dataclass(frozen=True, slots=True)
class BySearch:
    """A WHERE that needs a search: `query` finds primary keys at the transaction's snapshot.

    `predicate` checks a row again when it is locked. None: the WHERE has a subquery, which reads
    other rows, so a row that changed since the snapshot aborts the transaction for a retry.
    """

    query: Subquery
    predicate: Scalar | None


@dataclass(frozen=True, slots=True)
class Conflict:
    """ON CONFLICT. Its target is `index`; with `any_key`, every key; else the primary key."""

    any_key: bool
    index: Index | None
    assignments: Assignments
    """The assignments of DO UPDATE; empty: DO NOTHING. Their expressions are over the existing row
    followed by the proposed row."""
    where: Scalar | None


@dataclass(frozen=True, slots=True)
class InsertPlan:
    """The plan of an INSERT. `rows` has a tuple of assignments for each row of VALUES; `query` is
    the SELECT of INSERT … SELECT, and `query_positions` are the positions of its columns."""

    relation: Relation
    rows: tuple[tuple[Assignment, ...], ...]
    query: Subquery | None
    query_positions: tuple[int, ...]
    conflict: Conflict | None
    returning: Returning | None
    bound: BoundQuery
    readers: tuple[Reader, ...]
    by_values: tuple[ByValues, ...]

    def given(self, parameters: Parameters) -> Iterator[dict[int, Value]]:
        """The values of each row of VALUES, by position. Raises TypeMismatch."""
        return ({a.position: a.value((), parameters) for a in row} for row in self.rows)


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    relation: Relation
    find: ByKey | BySearch
    assignments: Assignments
    returning: Returning | None
    bound: BoundQuery
    readers: tuple[Reader, ...]
    by_values: tuple[ByValues, ...]


@dataclass(frozen=True, slots=True)
class DeletePlan:
    relation: Relation
    find: ByKey | BySearch
    returning: Returning | None
    bound: BoundQuery
    readers: tuple[Reader, ...]
    by_values: tuple[ByValues, ...]


WritePlan = InsertPlan | UpdatePlan | DeletePlan


def needs_duckdb(plan: WritePlan, parameters: Parameters) -> bool:
    """Does DuckDB evaluate any expression of the plan for these parameters? Such expressions may
    take long, so only `QueryEngine.evaluate` may call them."""
    return any(each.native(parameters) is None for each in plan.by_values)


def compile_write(sql: str, catalog: Catalog, engine: QueryEngine) -> WritePlan:
    """Compile one write statement. Raises SqlError and its subclasses."""
    return _compiled(bind(sql, catalog), catalog, engine)


def _compiled(bound: BoundQuery, catalog: Catalog, engine: QueryEngine) -> WritePlan:
    try:
        return _compile(_with_one_now(bound), catalog, engine)
    finally:
        unlink(bound.ast)


def _compile(bound: BoundQuery, catalog: Catalog, engine: QueryEngine) -> WritePlan:
    match bound.ast:
        case exp.Insert() as insert:
            _require_carried_out(insert)
            return _Compiler(bound, catalog, engine).insert(insert)
        case exp.Update() as update:
            _require_carried_out(update)
            return _Compiler(bound, catalog, engine).update(update)
        case exp.Delete() as delete:
            _require_carried_out(delete)
            return _Compiler(bound, catalog, engine).delete(delete)
    raise Unsupported(
        "A transaction takes INSERT, UPDATE and DELETE.",
        cure="Send SELECT to the query endpoint.",
    )


NOW = "__now"
"""The parameter that replaces CURRENT_TIMESTAMP and its like: the transaction's current time."""
_NOW_TYPE = ColumnType(Kind.TIMESTAMPTZ)
_NOW_CALLS = {"now", "get_current_timestamp", "transaction_timestamp"}


def _with_one_now(bound: BoundQuery) -> BoundQuery:
    """`bound` with the current time as parameter `NOW`. It has one value in a transaction, and the
    same in a replay."""
    moments = [node for node in bound.ast.walk() if _is_moment(node)]
    if not moments:
        return bound
    for node in moments:
        parameter = exp.Placeholder(this=NOW)
        parameter.meta["parameter"] = Parameter(NOW)
        moment: exp.Expr = exp.cast(parameter, "TIMESTAMPTZ", copy=False)
        if isinstance(node, exp.CurrentDate | exp.Localtimestamp):
            kind = "DATE" if isinstance(node, exp.CurrentDate) else "TIMESTAMP"
            moment = exp.cast(moment, kind, copy=False)
        if isinstance(node.parent, exp.Returning | exp.Select):
            moment = exp.alias_(moment, written(node, "duckdb"), quoted=True, copy=False)
        node.replace(moment)
    return replace(bound, parameter_types={**bound.parameter_types, NOW: _NOW_TYPE})


def _is_moment(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _NOW_CALLS
    return isinstance(node, exp.CurrentTimestamp | exp.CurrentDate | exp.Localtimestamp)


def bind_parameters(parameters: Parameters, plan: WritePlan, now: dt.datetime) -> Parameters:
    """Check the number and names of the parameters, and read each value as the type of its use.

    `now` is the value of CURRENT_TIMESTAMP in this transaction. Raises SqlError, TypeMismatch, and
    Misfit for values that need another plan (`with_values`).
    """
    values = read(plan.readers, {**_named(parameters, plan.bound), NOW: now})
    if isinstance(parameters, Mapping) or NOW in values:
        return values
    return tuple(values.values())


def with_values(
    plan: WritePlan, parameters: Parameters, catalog: Catalog, engine: QueryEngine
) -> tuple[WritePlan, Parameters]:
    """The plan with literals for the values that do not fit their parameters, and the other
    values. Raises SqlError and its subclasses."""
    named: Any = {**_named(parameters, plan.bound), NOW: None}
    bound, left = with_literals(plan.bound, plan.readers, named, catalog)
    left.pop(NOW, None)
    return _compiled(bound, catalog, engine), left


def _named(parameters: Parameters, bound: BoundQuery) -> Mapping[Any, Any]:
    """The values by number or name. Raises SqlError unless they match the parameters."""
    types = bound.parameter_types
    if not isinstance(parameters, Mapping):
        wanted = len(types) - (NOW in types)
        if len(parameters) != wanted:
            raise SqlError(
                f"The statement has {wanted} parameters, {len(parameters)} values were given."
            )
        return dict(enumerate(parameters))
    missing = [name for name in types if name not in parameters and name != NOW]
    extra = [name for name in parameters if name not in types or name == NOW]
    if missing or extra:
        raise SqlError(
            "The parameters do not match the statement: "
            + "; ".join(
                f"{what} {', '.join(':' + str(name) for name in names)}"
                for what, names in (("missing", missing), ("unknown", extra))
                if names
            )
        )
    return parameters


class _RowScope:
    """The scope of one relation's row. With `proposed`, the row `excluded` follows it."""

    def __init__(self, relation: Relation, alias: str, bound: BoundQuery, proposed: bool = False):
        self.relation = relation
        self.aliases = {alias, relation.name}
        self.types = bound.parameter_types
        self.proposed = proposed

    def position(self, name: str) -> int:
        """The position of a column in the relation. Raises UnknownName."""
        position = self.relation.positions.get(name)
        if position is None:
            raise UnknownName(
                f"Relation {self.relation.name} has no column {name}.",
                cure=f"It has: {', '.join(self.relation.column_names)}.",
            )
        return position

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        name, table = column.name, column.table
        position = self.position(name)
        type_ = self.relation.columns[position].type.stored()
        if not table or table in self.aliases:
            return position, type_
        if self.proposed and table == "excluded":
            return position + len(self.relation.columns), type_
        raise UnknownName(f"There is no relation {table} in this statement.")

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return self.types.get(name)

    @property
    def columns(self) -> tuple[Column, ...]:
        own = self.relation.columns
        if not self.proposed:
            return own
        return own + tuple(Column(f"excluded.{c.name}", c.type, c.nullable) for c in own)


class _Compiler:
    """Compiles one bound write statement."""

    def __init__(self, bound: BoundQuery, catalog: Catalog, engine: QueryEngine) -> None:
        target = bound.statement.target
        if target is None or target not in catalog.schema:
            raise Unsupported(
                f"{target} is a view: views are kept from their base relations.",
                cure="Write to the base relations.",
            )
        self.bound, self.catalog, self.engine = bound, catalog, engine
        self.relation = catalog.schema.relation(target)
        self.alias = target
        # Values are not rounded or cut here: their assignments coerce them.
        self.readers = readers(bound, ColumnType.comparand)
        self.by_values: list[ByValues] = []

    # ------------------------------------------------------------ statements

    def insert(self, ast: exp.Insert) -> InsertPlan:
        target = ast.this.this if isinstance(ast.this, exp.Schema) else ast.this
        self.alias = target.alias_or_name
        names = self._insert_columns(ast)
        source = ast.expression
        ignored = self._ignored(ast, names)
        positions: tuple[int, ...] = ()
        rows: tuple[tuple[Assignment, ...], ...] = ()
        query = None
        if source is None:
            rows = ((),)
        elif isinstance(source, exp.Values):
            rows = tuple(self._values(names, item, ignored) for item in source.expressions)
        else:
            query = self._select(ast, source, len(names))
            positions = tuple(self._position(name) for name in names)
        return InsertPlan(
            self.relation,
            rows,
            query,
            positions,
            self._conflict(ast.args.get("conflict")),
            self._returning(ast.args.get("returning")),
            self.bound,
            self.readers,
            tuple(self.by_values),
        )

    def update(self, ast: exp.Update) -> UpdatePlan:
        self.alias = ast.this.alias_or_name
        assignments = self._assignments(ast.expressions, _RowScope(*self._scope()))
        find = self._find(ast, ast.args.get("where"))
        returning = self._returning(ast.args.get("returning"))
        left = tuple(self.by_values)
        return UpdatePlan(
            self.relation, find, assignments, returning, self.bound, self.readers, left
        )

    def delete(self, ast: exp.Delete) -> DeletePlan:
        self.alias = ast.this.alias_or_name
        find = self._find(ast, ast.args.get("where"))
        returning = self._returning(ast.args.get("returning"))
        left = tuple(self.by_values)
        return DeletePlan(self.relation, find, returning, self.bound, self.readers, left)

    # ------------------------------------------------------------ parts

    def _scope(self) -> tuple[Relation, str, BoundQuery]:
        return self.relation, self.alias, self.bound

    def _insert_columns(self, ast: exp.Insert) -> tuple[str, ...]:
        if not isinstance(ast.this, exp.Schema):
            return self.relation.column_names
        names = tuple(item.name for item in ast.this.expressions)
        if len(set(names)) != len(names):
            raise SqlError(f"A column is named twice in INSERT INTO {self.relation.name}.")
        for name in names:
            self._position(name)
        return names

    def _ignored(self, ast: exp.Insert, names: Sequence[str]) -> frozenset[str]:
        """The identity columns whose given values are ignored (OVERRIDING USER VALUE). Raises
        SqlError for values of GENERATED ALWAYS columns without OVERRIDING."""
        overriding = ast.args.get(OVERRIDING)
        identities = [column for column in self.relation.columns if _is_identity(column)]
        if overriding == "user":
            if not isinstance(ast.expression, exp.Values):
                raise Unsupported(
                    "OVERRIDING USER VALUE is for VALUES here.",
                    cure="Leave the identity column out of INSERT … SELECT.",
                )
            return frozenset(column.name for column in identities)
        for column in identities if overriding is None else ():
            if _is_always(column) and column.name in names:
                at = names.index(column.name)
                source = ast.expression
                given = (
                    [_item(row, at) for row in source.expressions]
                    if isinstance(source, exp.Values)
                    else [source]
                )
                if not all(value is None or _is_default(value) for value in given):
                    raise SqlError(
                        f"Column {column.name} of {self.relation.name} is GENERATED ALWAYS: it"
                        " takes no value but DEFAULT.",
                        cure="Leave it out, or say INSERT INTO … OVERRIDING SYSTEM VALUE VALUES …",
                    )
        return frozenset()

    def _position(self, name: str) -> int:
        return _RowScope(*self._scope()).position(name)

    def _values(
        self, names: tuple[str, ...], item: exp.Expr, ignored: frozenset[str]
    ) -> tuple[Assignment, ...]:
        values = item.expressions if isinstance(item, exp.Tuple) else [item]
        if len(values) != len(names):
            raise SqlError(
                f"INSERT INTO {self.relation.name}: {len(names)} columns, {len(values)} values."
            )
        scope = _ConstantScope(self.bound)
        return tuple(
            self._assignment(name, value, scope)
            for name, value in zip(names, values, strict=True)
            if not _is_default(value) and name not in ignored
        )

    def _select(self, ast: exp.Insert, source: exp.Expr, width: int) -> Subquery:
        query = self._subquery(ast, source.copy())
        if len(query.prepared.columns) != width:
            raise SqlError(
                f"INSERT INTO {self.relation.name}: {width} columns,"
                f" the SELECT gives {len(query.prepared.columns)}."
            )
        return query

    def _subquery(self, ast: exp.Expr, query: exp.Expr) -> Subquery:
        """Prepare `query`, a part of `ast`, with the CTEs of `ast` and with named parameters."""
        if (with_ := ast.args.get("with_")) is not None:
            query.set("with_", with_.copy())
        uses: dict[str, int | str] = {}
        for node in list(query.find_all(exp.Placeholder)):
            key = parameter_key(node)
            # A numbered parameter gets a name: numbers may have gaps in a part of the statement.
            name = f"p{key}" if isinstance(key, int) else key
            uses[name] = key
            node.set("this", name)
            node.meta["parameter"] = Parameter(name)
        bound = bind_tree(query, self.bound.statement.sql, self.catalog)
        return Subquery(self.engine.prepare_bound(bound, self.catalog), uses)

    def _assignments(self, items: Sequence[exp.Expr], scope: _RowScope) -> Assignments:
        result: list[Assignment | Defaulted] = []
        for item in items:
            if not isinstance(item, exp.EQ) or not isinstance(item.this, exp.Column):
                raise Unsupported(
                    f"SET {written(item, 'duckdb')} is not supported.",
                    cure="Assign one column at a time: SET a = …, b = ….",
                )
            if _is_default(item.expression):
                position = self._position(item.this.name)
                result.append(Defaulted(position, self.relation.columns[position]))
            else:
                self._require_assignable(item.this.name)
                result.append(self._assignment(item.this.name, item.expression, scope))
        positions = [assignment.position for assignment in result]
        if len(set(positions)) != len(positions):
            raise SqlError("A column is assigned twice.")
        return tuple(result)

    def _require_assignable(self, name: str) -> None:
        column = self.relation.columns[self._position(name)]
        if _is_always(column):
            raise SqlError(
                f"Column {name} of {self.relation.name} is GENERATED ALWAYS: SET takes nothing but"
                " DEFAULT.",
                cure="Insert the row again, with OVERRIDING SYSTEM VALUE, and delete this one.",
            )

    def _assignment(
        self, name: str, value: exp.Expr, scope: _RowScope | _ConstantScope
    ) -> Assignment:
        found = self._bound(name, value, scope)
        scalar, kind = found.scalar, found.column.type.kind
        if kind not in _MOMENTS or isinstance(value, exp.Placeholder):
            return found
        return replace(found, scalar=lambda row, values: assigned_moment(scalar(row, values), kind))

    def _bound(self, name: str, value: exp.Expr, scope: _RowScope | _ConstantScope) -> Assignment:
        """`value` for a column, to be assigned to it or, in a key, to be compared with it."""
        position = self._position(name)
        column = self.relation.columns[position]
        exact = (
            isinstance(value, exp.Placeholder)
            and scope.parameter_type(parameter_key(value)) == column.type
            and column.type.kind not in {Kind.DECIMAL, Kind.TEXT}  # still to be rounded or cut
        )
        return Assignment(position, column, self._scalar(value, scope), exact)

    def _scalar(self, node: exp.Expr, scope: _RowScope | _ConstantScope) -> Scalar:
        if node.find(exp.Query):
            raise Unsupported(
                "A subquery cannot be used for a value here.",
                cure="Read the value first, or use INSERT … SELECT.",
            )
        if any(isinstance(part, exp.Window) or makes_or_takes_rows(part) for part in node.walk()):
            raise Unsupported(
                "Aggregates, window functions and unnest cannot be used for a value here: it is"
                " computed for each row by itself.",
                cure="Read the value first, or use INSERT … SELECT.",
            )
        compiled = compile_expression(node, scope)
        if compiled is not None:
            return compiled
        self.by_values.append(ByValues(node, scope))
        return self.by_values[-1].value

    def _predicate(self, node: exp.Expr, scope: _RowScope) -> Scalar:
        """A scalar that is True if the condition is true. Other values than booleans are cast to
        BOOLEAN, as DuckDB does."""
        compiled = compile_expression(node, scope)
        if compiled is None or compiled.type is None or compiled.type.kind is not Kind.BOOLEAN:
            node = exp.cast(node, "BOOLEAN", dialect="duckdb")
        try:
            scalar = self._scalar(node, scope)
        finally:
            unlink(node)
        return lambda row, parameters: scalar(row, parameters) is True

    def _find(self, ast: exp.Expr, where: exp.Where | None) -> ByKey | BySearch:
        scope = _RowScope(*self._scope())
        conjuncts = list(where.this.flatten()) if where and isinstance(where.this, exp.And) else []
        if where is not None and not conjuncts:
            conjuncts = [where.this]
        by_column: dict[str, exp.Expr] = {}
        rest: list[exp.Expr] = []
        for conjunct in conjuncts:
            name = self._key_equality(conjunct)
            if name is not None and name not in by_column:
                by_column[name] = conjunct.expression
            else:
                rest.append(conjunct)
        has_query = where is not None and where.find(exp.Query) is not None
        if len(by_column) == len(self.relation.primary_key) and not has_query:
            constant = _ConstantScope(self.bound)
            key = tuple(
                self._bound(name, by_column[name], constant) for name in self.relation.primary_key
            )
            condition = exp.and_(*rest, copy=False) if rest else None
            return ByKey(key, self._predicate(condition, scope) if condition else None)
        return self._search(ast, where, scope, has_query)

    def _key_equality(self, node: exp.Expr) -> str | None:
        """Name of the key column if `node` reads `key column = constant or parameter`."""
        if not isinstance(node, exp.EQ) or not isinstance(node.this, exp.Column):
            return None
        name = node.this.name
        if name not in self.relation.primary_key or node.expression.find(exp.Column):
            return None
        return name if self._names_key(node.expression, self.relation.column(name).type) else None

    def _names_key(self, value: exp.Expr, type_: ColumnType) -> bool:
        """Does `value` equal, in SQL, exactly the key to which `coerce` converts it? SQL has other
        casts from timestamps without time zone to those with one, and from text to bytes."""
        match value:
            case exp.Placeholder():
                return _alike(self.bound.parameter_types.get(parameter_key(value)), type_)
            case exp.Cast() if _alike(named_type(value.args.get("to")), type_):
                return True
        return comparable(fold(value), type_) is not None

    def _search(
        self, ast: exp.Expr, where: exp.Where | None, scope: _RowScope, has_query: bool
    ) -> BySearch:
        key = [exp.column(name, self.alias) for name in self.relation.primary_key]
        query = exp.select(*key).from_(ast.this.copy(), copy=False)
        if where is not None:
            query.where(where.this.copy(), copy=False)
        subquery = self._subquery(ast, query)
        if where is None:
            return BySearch(subquery, lambda _row, _parameters: True)
        return BySearch(subquery, None if has_query else self._predicate(where.this, scope))

    def _conflict(self, node: exp.OnConflict | None) -> Conflict | None:
        if node is None:
            return None
        keys = tuple(map(_conflict_column, node.args.get("conflict_keys") or ()))
        index = self._conflict_index(keys)
        if "NOTHING" in node.args["action"].name.upper():
            return Conflict(not keys, index, (), None)
        if not keys:
            raise SqlError("ON CONFLICT DO UPDATE needs a target: ON CONFLICT (columns).")
        scope = _RowScope(*self._scope(), proposed=True)
        where = node.args.get("where")
        return Conflict(
            False,
            index,
            self._assignments(node.expressions, scope),
            self._predicate(where.this, scope) if where else None,
        )

    def _conflict_index(self, keys: tuple[str, ...]) -> Index | None:
        if not keys or set(keys) == set(self.relation.primary_key):
            return None
        for index in self.catalog.indexes_on(self.relation.name):
            if index.unique and {part.column for part in index.columns} == set(keys):
                return index
        raise SqlError(
            f"ON CONFLICT ({', '.join(keys)}): {self.relation.name} has no primary key or unique"
            " index on exactly these columns."
        )

    def _returning(self, node: exp.Returning | None) -> Returning | None:
        if node is None:
            return None
        scope = _RowScope(*self._scope())
        names: list[str] = []
        types: list[str] = []
        scalars: list[Scalar] = []
        for item in node.expressions:
            for name, expression in self._output(item):
                compiled = compile_expression(expression, scope)
                type_ = compiled.type if compiled is not None else None
                names.append(name)
                types.append(type_.sql() if type_ is not None else "")
                scalars.append(compiled or self._scalar(expression, scope))
        return Returning(tuple(names), tuple(types), tuple(scalars))

    def _output(self, item: exp.Expr) -> list[tuple[str, exp.Expr]]:
        if isinstance(item, exp.Star) or item.is_star:
            names = self.relation.column_names
            columns: list[tuple[str, exp.Expr]] = [(name, exp.column(name)) for name in names]
            for _, column in columns:
                unlink(column)
            return columns
        if isinstance(item, exp.Alias):
            return [(item.alias, item.this)]
        return [(item.output_name or item.meta.get(DISPLAY) or written(item, "duckdb"), item)]


class ByValues:
    """An expression whose types depend on the values of its parameters: `balance + ?`.

    It is compiled for the types of the values, once for each combination; else DuckDB evaluates it.
    """

    def __init__(self, node: exp.Expr, scope: _RowScope | _ConstantScope) -> None:
        self._node = node
        self._scope = scope
        keys = dict.fromkeys(map(parameter_key, node.find_all(exp.Placeholder)))
        self._untyped = [key for key in keys if scope.parameter_type(key) is None]
        self._compiled: dict[tuple[ColumnType | None, ...], Scalar | None] = {}

    def native(self, parameters: Parameters) -> Scalar | None:
        """The expression compiled for the types of these parameters; None: DuckDB evaluates it."""
        types = tuple([_value_type(parameters[key]) for key in self._untyped])  # type: ignore[index]
        if types not in self._compiled:
            known = dict(zip(self._untyped, types, strict=True))
            self._compiled[types] = compile_expression(self._node, _TypedScope(self._scope, known))
        return self._compiled[types]

    def value(self, row: Row, parameters: Parameters) -> Value:
        compiled = self.native(parameters)
        if compiled is not None:
            return compiled(row, parameters)
        scope = self._scope
        return evaluate(self._node, scope.columns, [row], parameters, scope.types)[0]


class _TypedScope:
    """`scope`, with the types of more parameters."""

    def __init__(
        self, scope: _RowScope | _ConstantScope, known: Mapping[int | str, ColumnType | None]
    ) -> None:
        self._known = known
        self.resolve = scope.resolve
        self._type = scope.parameter_type

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return self._known.get(name) or self._type(name)


_TEXT = ColumnType(Kind.TEXT)
_INTEGERS = ((ColumnType(Kind.INTEGER), 1 << 31), (ColumnType(Kind.BIGINT), 1 << 63))


def _value_type(value: Value) -> ColumnType | None:
    """The type that DuckDB assumes for a text or an integer; None for other values. Raises
    TypeMismatch for invalid text (lone surrogates)."""
    if type(value) is str:
        _TEXT.coerce(value)
        return _TEXT
    if type(value) is int:
        for type_, limit in _INTEGERS:
            if -limit <= value < limit:
                return type_
    return None


class _ConstantScope:
    """The scope of VALUES and key equalities: it has parameters, but no columns."""

    columns: tuple[Column, ...] = ()

    def __init__(self, bound: BoundQuery) -> None:
        self.types = bound.parameter_types

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        raise UnknownName(f"Column {column.name} cannot be used here.")

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return self.types.get(name)


_EXACT_NUMBERS = {Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL}


def _alike(left: ColumnType | None, right: ColumnType) -> bool:
    """Are values of the two types equal in SQL exactly when they are equal in Python?"""
    if left is None:
        return False
    return left.kind is right.kind or {left.kind, right.kind} <= _EXACT_NUMBERS


def _is_identity(column: Column) -> bool:
    return column.default is not None and column.default.kind is DefaultKind.IDENTITY


def _is_always(column: Column) -> bool:
    return column.default is not None and column.default.identity.always


def _item(row: exp.Expr, at: int) -> exp.Expr | None:
    values = row.expressions if isinstance(row, exp.Tuple) else [row]
    return values[at] if at < len(values) else None


def _is_default(value: exp.Expr) -> bool:
    return isinstance(value, exp.Var) and value.name.upper() == "DEFAULT"


_CARRIED_OUT: Mapping[type[exp.Expr], Set[str]] = {
    exp.Insert: {"this", "expression", "default", "conflict", "returning", "with_", OVERRIDING},
    exp.Update: {"this", "expressions", "where", "returning", "with_"},
    exp.Delete: {"this", "where", "returning", "with_"},
    exp.Schema: {"this", "expressions"},
    exp.Table: {"this", "alias", "only"},
    exp.TableAlias: {"this"},
    exp.OnConflict: {"action", "conflict_keys", "expressions", "where"},
    exp.Returning: {"expressions"},
}
"""The clauses of a statement that its plan carries out. The parser accepts more clauses."""

_COLUMNS = "Use INSERT … ON CONFLICT (columns)."
_SOME_ROWS = "Name the rows in WHERE, for example by a subquery: WHERE key IN (SELECT …)."
_TWO_STEPS = "Use ON CONFLICT, or DELETE and INSERT in one transaction."
_REFUSED = {
    "alternative": ("INSERT OR REPLACE and INSERT OR IGNORE are", _COLUMNS),
    "ignore": ("INSERT IGNORE is", _COLUMNS),
    "by_name": ("INSERT BY NAME is", "List the columns: INSERT INTO t (columns) …"),
    "overwrite": ("INSERT OVERWRITE is", _TWO_STEPS),
    "exists": ("INSERT with IF EXISTS is", _TWO_STEPS),
    "constraint": ("ON CONFLICT ON CONSTRAINT is", "Name its columns: ON CONFLICT (columns)."),
    "index_predicate": ("ON CONFLICT (columns) with WHERE before DO is", "Leave the WHERE out."),
    "duplicate": ("ON DUPLICATE KEY is", _COLUMNS),
    "from_": ("UPDATE with FROM is", "Use a subquery in WHERE, or read the values first."),
    "using": ("DELETE with USING is", "Use a subquery in WHERE."),
    "order": ("ORDER BY in a write is", _SOME_ROWS),
    "limit": ("LIMIT in a write is", _SOME_ROWS),
    "columns": ("A list of columns after the alias is", "Give the relation an alias alone."),
    "into": ("RETURNING with INTO is", "The rows come as the statement's result."),
}


def _require_carried_out(ast: exp.Expr) -> None:
    """Raises Unsupported for a clause that no plan carries out: without the clause, the statement
    would change other rows."""
    target = ast.this
    relation = target.this if isinstance(target, exp.Schema) else target
    parts = [ast, target, relation, relation.args.get("alias")]
    parts += [ast.args.get("conflict"), ast.args.get("returning")]
    for part in filter(None, parts):
        for clause in filter(part.args.get, part.args.keys() - _CARRIED_OUT[type(part)]):
            words = f"{clause.strip('_').replace('_', ' ').upper()} in a write is"
            words, cure = _REFUSED.get(clause, (words, "Leave it out."))
            raise Unsupported(f"{words} not supported.", cure=cure)


def _conflict_column(item: exp.Expr) -> str:
    """The column of a target of ON CONFLICT. Raises Unsupported for other expressions."""
    column = item.this if isinstance(item, exp.Ordered) else item
    if isinstance(column, exp.Column | exp.Identifier) and not item.args.get("desc"):
        return column.name
    raise Unsupported(
        f"ON CONFLICT ({written(item, 'duckdb')}) is not supported.",
        cure="Its target is the primary key or the columns of a unique index.",
    )
