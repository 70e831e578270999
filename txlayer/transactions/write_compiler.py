"""Compilation of INSERT, UPDATE and DELETE to write plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Parameter
from hornbeam_server.query.binding.binder import BoundQuery, bind, bind_tree
from hornbeam_server.query.binding.constants import comparable, fold, named_type
from hornbeam_server.query.binding.parameters import readers, with_literals
from hornbeam_server.query.binding.parse import OVERRIDING
from hornbeam_server.query.binding.placeholders import parameter_key
from hornbeam_server.query.dialect.functions import DISPLAY, makes_or_takes_rows
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.expressions import compile_expression
from hornbeam_server.schema.assignment import assign
from hornbeam_server.schema.catalog import Catalog, Index
from hornbeam_server.schema.errors import SqlError, TypeMismatch, Unsupported
from hornbeam_server.schema.model import Column, DefaultKind, Relation
from hornbeam_server.schema.named_columns import generated_given
from hornbeam_server.schema.trees import unlink, written
from hornbeam_server.schema.types import ColumnType, Kind, Value
from hornbeam_server.txlayer.transactions.requests import Parameters
from hornbeam_server.txlayer.transactions.write_clauses import conflict_column, require_carried_out
from hornbeam_server.txlayer.transactions.write_expressions import (
    ByValues,
    ConstantScope,
    RowScope,
    Scalar,
)
from hornbeam_server.txlayer.transactions.write_parameters import NOW, by_name, with_one_now
from hornbeam_server.txlayer.transactions.write_plans import (
    Assignment,
    Assignments,
    ByKey,
    BySearch,
    Conflict,
    Defaulted,
    DeletePlan,
    InsertPlan,
    Returning,
    Subquery,
    UpdatePlan,
    WritePlan,
)


def compile_write(sql: str, catalog: Catalog, engine: QueryEngine) -> WritePlan:
    """Compile one write statement. Raises SqlError and its subclasses."""
    return _compiled(bind(sql, catalog), catalog, engine)


def _compiled(bound: BoundQuery, catalog: Catalog, engine: QueryEngine) -> WritePlan:
    try:
        return _compile(with_one_now(bound), catalog, engine)
    finally:
        unlink(bound.ast)


def _compile(bound: BoundQuery, catalog: Catalog, engine: QueryEngine) -> WritePlan:
    match bound.ast:
        case exp.Insert() as insert:
            require_carried_out(insert)
            return _Compiler(bound, catalog, engine).insert(insert)
        case exp.Update() as update:
            require_carried_out(update)
            return _Compiler(bound, catalog, engine).update(update)
        case exp.Delete() as delete:
            require_carried_out(delete)
            return _Compiler(bound, catalog, engine).delete(delete)
    raise Unsupported(
        "A transaction takes INSERT, UPDATE and DELETE.",
        cure="Send SELECT to the query endpoint.",
    )


def with_values(
    plan: WritePlan, parameters: Parameters, catalog: Catalog, engine: QueryEngine
) -> tuple[WritePlan, Parameters]:
    """The plan with literals for the values that do not fit their parameters, and the other
    values. Raises SqlError and its subclasses."""
    named: Any = {**by_name(parameters, plan.bound), NOW: None}
    bound, left = with_literals(plan.bound, plan.readers, named, catalog)
    left.pop(NOW, None)
    return _compiled(bound, catalog, engine), left


def _read(type_: ColumnType, value: Any) -> Value:
    """A parameter's value for a column of `type_`. What the type can hold is not rounded or cut
    here, because the parameter may also be compared; its assignment does that."""
    try:
        return type_.comparand(value)
    except TypeMismatch:
        return assign(type_, value)


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
        self.readers = readers(bound, _read)
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
        assignments = self._assignments(ast.expressions, RowScope(*self._scope()))
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
            return self.relation.visible_names
        names = tuple(item.name for item in ast.this.expressions)
        if len(set(names)) != len(names):
            raise SqlError(
                f"A column is named twice in INSERT INTO {self.relation.name}.",
                cure="Name each column once.",
            )
        for name in names:
            self._require_writable(name)
        return names

    def _ignored(self, ast: exp.Insert, names: Sequence[str]) -> frozenset[str]:
        """The identity columns whose given values are ignored (OVERRIDING USER VALUE). Raises
        SqlError for values of generated columns, and of identity columns that are GENERATED ALWAYS
        without OVERRIDING."""
        for column in self.relation.generated:
            if not _gives_default(ast.expression, names, column.name):
                raise generated_given(self.relation, column)
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
            if _is_always(column) and not _gives_default(ast.expression, names, column.name):
                raise SqlError(
                    f"Column {column.name} of {self.relation.name} is GENERATED ALWAYS: it"
                    " takes no value but DEFAULT.",
                    cure="Leave it out, or say INSERT INTO … OVERRIDING SYSTEM VALUE VALUES …",
                )
        return frozenset()

    def _position(self, name: str) -> int:
        return RowScope(*self._scope()).position(name)

    def _values(
        self, names: tuple[str, ...], item: exp.Expr, ignored: frozenset[str]
    ) -> tuple[Assignment, ...]:
        values = item.expressions if isinstance(item, exp.Tuple) else [item]
        if len(values) != len(names):
            raise SqlError(
                f"INSERT INTO {self.relation.name}: {len(names)} columns, {len(values)} values.",
                cure="Give one value for each column.",
            )
        scope = ConstantScope(self.bound)
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
                f" the SELECT gives {len(query.prepared.columns)}.",
                cure="Name the columns that are written, and give each a value.",
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

    def _assignments(self, items: Sequence[exp.Expr], scope: RowScope) -> Assignments:
        result: list[Assignment | Defaulted] = []
        for item in items:
            if not isinstance(item, exp.EQ) or not isinstance(item.this, exp.Column):
                raise Unsupported(
                    f"SET {written(item, NAME)} is not supported.",
                    cure="Assign one column at a time: SET a = …, b = ….",
                )
            if _is_default(item.expression):
                position = self._require_writable(item.this.name)
                result.append(Defaulted(position, self.relation.columns[position]))
            else:
                self._require_assignable(item.this.name)
                result.append(self._assignment(item.this.name, item.expression, scope))
        positions = [assignment.position for assignment in result]
        if len(set(positions)) != len(positions):
            raise SqlError("A column is assigned twice.", cure="Assign each column once.")
        return tuple(result)

    def _require_writable(self, name: str) -> int:
        """The position of a column. Raises SqlError for the row identity."""
        position = self._position(name)
        if self.relation.columns[position].hidden:
            raise SqlError(
                f"Column {name} of {self.relation.name} is the hidden number of its rows: it is"
                " read, and never written.",
                cure="Leave it out.",
            )
        return position

    def _require_assignable(self, name: str) -> None:
        column = self.relation.columns[self._require_writable(name)]
        if column in self.relation.generated:
            raise generated_given(self.relation, column)
        if _is_always(column):
            raise SqlError(
                f"Column {name} of {self.relation.name} is GENERATED ALWAYS: SET takes nothing but"
                " DEFAULT.",
                cure="Insert the row again, with OVERRIDING SYSTEM VALUE, and delete this one.",
            )

    def _assignment(
        self, name: str, value: exp.Expr, scope: RowScope | ConstantScope
    ) -> Assignment:
        """`value` for a column, to be assigned to it or, in a key, to be compared with it."""
        position = self._position(name)
        column = self.relation.columns[position]
        exact = (
            isinstance(value, exp.Placeholder)
            and scope.parameter_type(parameter_key(value)) == column.type
            and column.type.kind not in {Kind.DECIMAL, Kind.TEXT}  # still to be rounded or cut
        )
        return Assignment(position, column, self._scalar(value, scope), exact)

    def _scalar(self, node: exp.Expr, scope: RowScope | ConstantScope) -> Scalar:
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

    def _predicate(self, node: exp.Expr, scope: RowScope) -> Scalar:
        """A scalar that is True if the condition is true. Other values than booleans are cast to
        BOOLEAN, as DuckDB does."""
        compiled = compile_expression(node, scope)
        if compiled is None or compiled.type is None or compiled.type.kind is not Kind.BOOLEAN:
            node = exp.cast(node, "BOOLEAN", dialect=NAME)
        try:
            scalar = self._scalar(node, scope)
        finally:
            unlink(node)
        return lambda row, parameters: scalar(row, parameters) is True

    def _find(self, ast: exp.Expr, where: exp.Where | None) -> ByKey | BySearch:
        scope = RowScope(*self._scope())
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
            constant = ConstantScope(self.bound)
            key = tuple(
                self._assignment(name, by_column[name], constant)
                for name in self.relation.primary_key
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
        self, ast: exp.Expr, where: exp.Where | None, scope: RowScope, has_query: bool
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
        keys = tuple(map(conflict_column, node.args.get("conflict_keys") or ()))
        index = self._conflict_index(keys)
        if "NOTHING" in node.args["action"].name.upper():
            return Conflict(not keys, index, (), None)
        if not keys:
            raise SqlError(
                "ON CONFLICT DO UPDATE has no target.",
                cure="Write ON CONFLICT (columns) DO UPDATE.",
            )
        scope = RowScope(*self._scope(), proposed=True)
        where = node.args.get("where")
        return Conflict(
            False,
            index,
            self._assignments(node.expressions, scope),
            self._predicate(where.this, scope) if where else None,
        )

    def _conflict_index(self, keys: tuple[str, ...]) -> Index | None:
        if not keys or set(keys) == set(self.relation.declared_key):
            return None
        for index in self.catalog.indexes_on(self.relation.name):
            if index.unique and {part.column for part in index.columns} == set(keys):
                return index
        raise SqlError(
            f"ON CONFLICT ({', '.join(keys)}): {self.relation.name} has no primary key or unique"
            " index on exactly these columns.",
            cure="Name the columns of the primary key or of a unique index.",
        )

    def _returning(self, node: exp.Returning | None) -> Returning | None:
        if node is None:
            return None
        scope = RowScope(*self._scope())
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
            names = self.relation.visible_names
            columns: list[tuple[str, exp.Expr]] = [(name, exp.column(name)) for name in names]
            for _, column in columns:
                unlink(column)
            return columns
        if isinstance(item, exp.Alias):
            return [(item.alias, item.this)]
        return [(item.output_name or item.meta.get(DISPLAY) or written(item, NAME), item)]


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


def _gives_default(source: exp.Expr | None, names: Sequence[str], column: str) -> bool:
    """Does an INSERT give `column` no value but DEFAULT? `source` are its VALUES or its SELECT, for
    the columns `names`."""
    if source is None or column not in names:
        return True
    if not isinstance(source, exp.Values):
        return False
    items = (_item(row, names.index(column)) for row in source.expressions)
    return all(item is None or _is_default(item) for item in items)


def _item(row: exp.Expr, at: int) -> exp.Expr | None:
    values = row.expressions if isinstance(row, exp.Tuple) else [row]
    return values[at] if at < len(values) else None


def _is_default(value: exp.Expr) -> bool:
    return isinstance(value, exp.Var) and value.name.upper() == "DEFAULT"
