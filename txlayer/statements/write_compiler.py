"""Compilation of INSERT, UPDATE, DELETE and MERGE to write plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeGuard

from sqlglot import exp

from hornbeam_server.query.binding.binder import BoundQuery, bind_tree, output_name
from hornbeam_server.query.binding.parameters import Reader, readers, with_literals, with_types
from hornbeam_server.query.dialect.functions import makes_or_takes_rows
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.expressions import compile_expression
from hornbeam_server.query.parsing.assignments import both_sides
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.parsing.placeholders import parameter_key
from hornbeam_server.query.parsing.sequence_calls import (
    names_sequences,
    read_call,
    refuse_calls,
    without_bare_queries,
    without_outer_lists,
)
from hornbeam_server.query.typing.constants import CONSTANT, comparable, fold, named_type
from hornbeam_server.schema.assignment import assign
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import SqlError, TypeMismatch, Unsupported
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.trees import nodes_of, unlink
from hornbeam_server.schema.types import REAL, ColumnType, Kind, Value
from hornbeam_server.txlayer.statements.conflict_targets import target_of
from hornbeam_server.txlayer.statements.identity_assignments import (
    ignored_identities,
    is_default,
    require_assignable,
    require_writable,
)
from hornbeam_server.txlayer.statements.numbered_blocks import with_numbers_in_blocks
from hornbeam_server.txlayer.statements.requests import Parameters
from hornbeam_server.txlayer.statements.sequence_queries import split
from hornbeam_server.txlayer.statements.truncation import truncation
from hornbeam_server.txlayer.statements.value_lifting import Lifter
from hornbeam_server.txlayer.statements.write_clauses import (
    require_carried_out,
    require_merged,
)
from hornbeam_server.txlayer.statements.write_expressions import (
    ByValues,
    ConstantScope,
    RowScope,
    Scalar,
    is_lifted,
)
from hornbeam_server.txlayer.statements.write_parameters import (
    NOW,
    assigning,
    by_name,
    with_one_now,
)
from hornbeam_server.txlayer.statements.write_plans import (
    Assignment,
    Assignments,
    ByKey,
    BySearch,
    Conflict,
    Defaulted,
    DeletePlan,
    InsertPlan,
    Lifted,
    MergeAction,
    MergeDelete,
    MergeInsert,
    MergePlan,
    MergeUpdate,
    Returning,
    RowPlan,
    Subquery,
    UpdatePlan,
    WritePlan,
    assignment,
    whole_row_of,
)
from hornbeam_server.txlayer.statements.write_queries import (
    merge_of,
    name_parameters,
    put_before,
    search_of,
)
from hornbeam_server.txlayer.statements.write_steps import (
    compile_steps,
    has_blocks,
    has_writing_parts,
)


def compile_write(sql: str, catalog: Catalog, engine: QueryEngine) -> WritePlan:
    """Compile one write statement. Raises SqlError and its subclasses."""
    tree = parse(sql, sequences=True)
    if names_sequences(sql):
        without_bare_queries(tree)
        tree = with_numbers_in_blocks(without_outer_lists(tree))
    if isinstance(tree, exp.TruncateTable):
        return truncation(tree, sql, catalog, engine)
    if has_writing_parts(tree) or (names_sequences(sql) and has_blocks(tree)):
        return compile_steps(tree, sql, catalog, engine, _compiled)
    return _compiled(bind_tree(tree, sql, catalog), catalog, engine)


def _compiled(bound: BoundQuery, catalog: Catalog, engine: QueryEngine) -> RowPlan:
    try:
        return _compile(with_one_now(bound), catalog, engine)
    finally:
        unlink(bound.ast)


def _compile(bound: BoundQuery, catalog: Catalog, engine: QueryEngine) -> RowPlan:
    match bound.ast:
        case exp.Insert() as insert:
            require_carried_out(insert)
            with _Compiler(bound, catalog, engine) as compiler:
                return compiler.insert(insert)
        case exp.Update() as update:
            require_carried_out(update)
            with _Compiler(bound, catalog, engine) as compiler:
                return compiler.update(update)
        case exp.Delete() as delete:
            require_carried_out(delete)
            with _Compiler(bound, catalog, engine) as compiler:
                return compiler.delete(delete)
        case exp.Merge() as merge:
            require_merged(merge)
            with _Compiler(bound, catalog, engine) as compiler:
                return compiler.merge(merge)
    raise Unsupported(
        "A transaction takes INSERT, UPDATE, DELETE, MERGE and TRUNCATE.",
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


def for_types(
    plan: WritePlan,
    types: Mapping[int | str, ColumnType | None],
    catalog: Catalog,
    engine: QueryEngine,
) -> WritePlan:
    """The plan for values of these types. It takes the same parameters. Raises SqlError and its
    subclasses."""
    return _compiled(with_types(plan.bound, types, catalog), catalog, engine)


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
        relation = _relation_of(bound.ast)
        self.alias = relation.alias_or_name
        self.types = dict(bound.parameter_types)
        sources = bound.ast.args.get("from_") or bound.ast.args.get("using")
        self.lifter = Lifter(
            self.alias,
            self.types,
            self._subquery,
            lambda node: read_call(node, catalog),
            from_=bool(sources),
        )
        placeholders = nodes_of(bound.ast, exp.Placeholder)
        self.mentions = Counter(node.meta["parameter"].name for node in placeholders)
        self.assigned: dict[int | str, Column] = {}
        """The columns that take the parameters with no other use."""
        self.by_values: list[ByValues] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.lifter.close()
        del self.lifter  # it refers to this object

    # ------------------------------------------------------------ statements

    def insert(self, ast: exp.Insert) -> InsertPlan:
        names = self._insert_columns(ast)
        source = ast.expression
        query, outputs = None, None
        if source is not None and not isinstance(source, exp.Values):
            query, outputs = split(source, self._subquery, self.catalog)
            width = len(query.prepared.columns) if outputs is None else outputs.width
            names = self._selected(ast, names, width)
        ignored = ignored_identities(self.relation, ast, names)
        positions: tuple[int, ...] = ()
        rows: tuple[tuple[Assignment, ...], ...] = ()
        queries: list[Lifted] = []
        if source is None:
            rows = ((),)
        elif isinstance(source, exp.Values):
            rows = tuple(self._values(names, item, ignored, queries) for item in source.expressions)
        else:
            positions = tuple(self._position(name) for name in names)
        return InsertPlan(
            self.relation,
            rows,
            query,
            positions,
            tuple(queries),
            self._conflict(ast.args.get("conflict")),
            self._returning(self._outputs(ast.args.get("returning"))),
            self.bound,
            self._readers(),
            tuple(self.by_values),
            outputs,
            self._reals_as_text(query, positions) if outputs is None else frozenset(),
            whole_row_of(self.relation, rows[0]) if len(rows) == 1 else None,
        )

    def _reals_as_text(self, query: Subquery | None, positions: Sequence[int]) -> frozenset[int]:
        """The places of the columns of INSERT … SELECT that are REAL and are assigned to text."""
        given = () if query is None else query.prepared.columns
        return frozenset(
            place
            for place, (column, position) in enumerate(zip(given, positions, strict=False))
            if REAL in (column.type, column.number)
            and self.relation.columns[position].type.kind is Kind.TEXT
        )

    def update(self, ast: exp.Update) -> UpdatePlan:
        by_key = self._by_key(ast)
        queries: list[Lifted] = []
        scope = self._scope()
        pairs = self._pairs(ast.expressions, scope, queries, search=by_key is None)
        outputs = self._outputs(ast.args.get("returning"))
        find = by_key or self._search(ast)
        assignments = self._assignments(pairs, scope)
        return UpdatePlan(
            self.relation,
            find,
            assignments,
            tuple(queries),
            self._returning(outputs),
            self.bound,
            self._readers(),
            tuple(self.by_values),
        )

    def delete(self, ast: exp.Delete) -> DeletePlan:
        outputs = self._outputs(ast.args.get("returning"))
        find = self._by_key(ast) or self._search(ast)
        returning = self._returning(outputs)
        left = tuple(self.by_values)
        return DeletePlan(self.relation, find, returning, self.bound, self._readers(), left)

    def merge(self, ast: exp.Merge) -> MergePlan:
        made: list[Callable[[], MergeAction]] = []
        numbers: list[int] = []
        for when in ast.args["whens"].expressions:
            action = self._merge_action(when.args["then"])
            numbers.append(-1 if action is None else len(made))
            if action is not None:
                made.append(action)
        key = [exp.column(name, self.alias) for name in self.relation.primary_key]
        values = [exp.alias_(node, name) for name, node in self.lifter.searched.values()]
        query = self._subquery(merge_of(ast, key, values, numbers))
        return MergePlan(
            self.relation,
            query,
            self.lifter.took(query, len(key) + 1),
            tuple(make() for make in made),
            self.bound,
            self._readers(),
            tuple(self.by_values),
        )

    def _merge_action(self, then: exp.Expr) -> Callable[[], MergeAction] | None:
        """An action with lifted values, to be compiled when their types are known; None for DO
        NOTHING."""
        queries: list[Lifted] = []
        match then:
            case exp.Update():
                scope = self._scope()
                pairs = self._pairs(then.expressions, scope, queries)
                return lambda: MergeUpdate(self._assignments(pairs, scope), tuple(queries))
            case exp.Insert(expression=None):
                return lambda: MergeInsert((), ())
            case exp.Insert(expression=values):
                names = self._insert_columns(then)
                ignored = ignored_identities(self.relation, then, names)
                (row,) = values.expressions
                cells = self._lifted(names, row, ignored, queries)
                return lambda: MergeInsert(self._cells(cells), tuple(queries))
        return MergeDelete if then.name.upper() == "DELETE" else None

    # ------------------------------------------------------------ parts

    def _scope(self, *, proposed: bool = False) -> RowScope:
        return RowScope(self.relation, self.alias, self.types, proposed)

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
            require_writable(self.relation, self.relation.columns[self._position(name)])
        return names

    def _position(self, name: str) -> int:
        return self._scope().position(name)

    def _values(
        self,
        names: tuple[str, ...],
        item: exp.Expr,
        ignored: frozenset[str],
        queries: list[Lifted],
    ) -> tuple[Assignment, ...]:
        return self._cells(self._lifted(names, item, ignored, queries))

    def _lifted(
        self,
        names: tuple[str, ...],
        item: exp.Expr,
        ignored: frozenset[str],
        queries: list[Lifted],
    ) -> list[tuple[str, exp.Expr]]:
        """The columns and values of a row of VALUES, with lifted values, without defaults."""
        values = item.expressions if isinstance(item, exp.Tuple) else [item]
        if len(values) != len(names):
            raise SqlError(
                f"INSERT INTO {self.relation.name}: {len(names)} columns, {len(values)} values.",
                cure="Give one value for each column.",
            )
        scope = ConstantScope(self.types)
        return [
            (name, self.lifter.lift(value, scope, queries))
            for name, value in zip(names, values, strict=True)
            if not is_default(value) and name not in ignored
        ]

    def _cells(self, cells: Sequence[tuple[str, exp.Expr]]) -> tuple[Assignment, ...]:
        scope = ConstantScope(self.types)
        return tuple(self._assignment(name, value, scope) for name, value in cells)

    def _selected(self, ast: exp.Insert, names: tuple[str, ...], given: int) -> tuple[str, ...]:
        """The columns that the `given` columns of a SELECT are for: the first columns of the
        relation, if the INSERT has no list of columns."""
        if not isinstance(ast.this, exp.Schema):
            names = names[:given]
        if given != len(names):
            raise SqlError(
                f"INSERT INTO {self.relation.name}: {len(names)} columns,"
                f" the SELECT gives {given}.",
                cure="Name the columns that are written, and give each a value.",
            )
        return names

    def _subquery(self, query: exp.Expr) -> Subquery:
        """Prepare `query`, a part of the statement, with the CTEs of the statement and with named
        parameters."""
        if (with_ := self.bound.ast.args.get("with_")) is not None:
            put_before(with_.copy(), query)
        refuse_calls(query.walk())
        uses = name_parameters(query)
        bound = bind_tree(query, self.bound.statement.sql, self.catalog)
        return Subquery(self.engine.prepare_bound(bound, self.catalog), uses)

    def _pairs(
        self,
        items: Sequence[exp.Expr],
        scope: RowScope,
        queries: list[Lifted],
        *,
        search: bool = False,
    ) -> list[tuple[str, exp.Expr]]:
        """The columns and values of SET, with lifted values."""
        result: list[tuple[str, exp.Expr]] = []
        for item in items:
            assert isinstance(item, exp.EQ), "checked by the binder"
            columns, values = both_sides(item)
            if values is None:
                found = self.lifter.lift_row(item.expression, len(columns), scope, queries)
            else:
                found = [self.lifter.lift(v, scope, queries, search=search) for v in values]
            result += zip((column.name for column in columns), found, strict=True)
        return result

    def _assignments(self, pairs: Sequence[tuple[str, exp.Expr]], scope: RowScope) -> Assignments:
        result: list[Assignment | Defaulted] = []
        for name, value in pairs:
            position = self._position(name)
            column = self.relation.columns[position]
            require_writable(self.relation, column)
            if is_default(value):
                result.append(Defaulted(position, column))
            else:
                require_assignable(self.relation, column)
                result.append(self._assignment(name, value, scope))
        positions = [assignment.position for assignment in result]
        if len(set(positions)) != len(positions):
            raise SqlError("A column is assigned twice.", cure="Assign each column once.")
        return tuple(result)

    def _assignment(
        self, name: str, value: exp.Expr, scope: RowScope | ConstantScope
    ) -> Assignment:
        """`value` for a column, to be assigned to it or, in a key, to be compared with it."""
        position = self._position(name)
        column = self.relation.columns[position]
        parameter = parameter_key(value) if _is_parameter(value) else None
        if parameter is not None and not self._is_bound_to(parameter, column):
            parameter = None
        others = len(self.by_values)
        scalar = self._scalar(value, scope)
        constant = isinstance(value, _CONSTANTS) and len(self.by_values) == others
        literal = _spelling(value) if constant else None
        return assignment(
            position, column, scalar, parameter=parameter, constant=constant, literal=literal
        )

    def _is_bound_to(self, parameter: int | str, column: Column) -> bool:
        """Is the parameter bound with the type of `column`? If it has no other use, it is bound as
        the column takes it. Else it may still have to be rounded or cut."""
        if self.types.get(parameter) != column.type:
            return False
        if self.mentions[parameter] == 1 and parameter not in self.bound.uses:
            self.assigned[parameter] = column
            return True
        return column.type.kind not in {Kind.DECIMAL, Kind.TEXT} and column.type != REAL

    def _readers(self) -> tuple[Reader, ...]:
        assigned = self.assigned
        return tuple(
            (reader[0], *assigning(assigned[reader[0]])) if reader[0] in assigned else reader
            for reader in readers(self.bound, _read)
        )

    def _scalar(self, node: exp.Expr, scope: RowScope | ConstantScope) -> Scalar:
        if is_lifted(node):
            key = parameter_key(node)
            return lambda _row, parameters: parameters[key]  # type: ignore[index]
        refuse_calls(node.walk())
        if any(isinstance(part, exp.Window) or makes_or_takes_rows(part) for part in node.walk()):
            raise Unsupported(
                "Aggregates, window functions and unnest cannot be used for a value here: it is"
                " computed for each row by itself.",
                cure="Read the value first, or use INSERT … SELECT.",
            )
        compiled = compile_expression(node, scope)
        if compiled is not None:
            return compiled.evaluate
        self.by_values.append(ByValues(node, scope))
        return self.by_values[-1].value

    def _predicate(self, node: exp.Expr, scope: RowScope) -> Scalar:
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

    def _by_key(self, ast: exp.Expr) -> ByKey | None:
        """The key that WHERE fixes; None if the rows need a search."""
        where = ast.args.get("where")
        if where is None or self.lifter.from_ or where.find(exp.Query) is not None:
            return None
        conjuncts = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
        by_column: dict[str, exp.Expr] = {}
        rest: list[exp.Expr] = []
        for conjunct in conjuncts:
            name = self._key_equality(conjunct)
            if name is not None and name not in by_column:
                by_column[name] = conjunct.expression
            else:
                rest.append(conjunct)
        if len(by_column) < len(self.relation.primary_key):
            return None
        constant = ConstantScope(self.types)
        key = tuple(
            self._assignment(name, by_column[name], constant) for name in self.relation.primary_key
        )
        condition = exp.and_(*rest, copy=False) if rest else None
        return ByKey(key, self._predicate(condition, self._scope()) if condition else None)

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

    def _search(self, ast: exp.Expr) -> BySearch:
        where = ast.args.get("where")
        key = [exp.column(name, self.alias) for name in self.relation.primary_key]
        values = [exp.alias_(node, name) for name, node in self.lifter.searched.values()]
        subquery = self._subquery(search_of(ast, [*key, *values]))
        names = self.lifter.took(subquery, len(key))
        if names or self.lifter.from_ or (where is not None and where.find(exp.Query) is not None):
            return BySearch(subquery, None, names)
        if where is None:
            return BySearch(subquery, lambda _row, _parameters: True)
        return BySearch(subquery, self._predicate(where.this, self._scope()))

    def _conflict(self, node: exp.OnConflict | None) -> Conflict | None:
        if node is None:
            return None
        target = target_of(node, self.catalog, self.relation)
        if "NOTHING" in node.args["action"].name.upper():
            return Conflict(target, (), None)
        if target.any:
            raise SqlError(
                "ON CONFLICT DO UPDATE has no target.",
                cure="Write ON CONFLICT (columns) DO UPDATE.",
            )
        scope = self._scope(proposed=True)
        where = node.args.get("where")
        queries: list[Lifted] = []
        where_queries: list[Lifted] = []
        condition = self.lifter.lift(where.this, scope, where_queries) if where else None
        return Conflict(
            target,
            self._assignments(self._pairs(node.expressions, scope, queries), scope),
            self._predicate(condition, scope) if condition is not None else None,
            tuple(queries),
            tuple(where_queries),
        )

    def _outputs(self, node: exp.Returning | None) -> _Outputs | None:
        """The names and expressions of RETURNING, with lifted values."""
        if node is None:
            return None
        scope = self._scope()
        queries: list[Lifted] = []
        named = [
            (name, self.lifter.lift(expression, scope, queries))
            for item in node.expressions
            for name, expression in self._output(item)
        ]
        return named, queries

    def _returning(self, outputs: _Outputs | None) -> Returning | None:
        if outputs is None:
            return None
        scope = self._scope()
        types: list[ColumnType | None] = []
        scalars: list[Scalar] = []
        for (_, expression), column in zip(outputs[0], self.bound.columns, strict=True):
            compiled = compile_expression(expression, scope)
            of_cast = named_type(expression.args.get("to"))
            computed = of_cast or column.type or column.number
            types.append(computed if compiled is None else compiled.type)
            scalars.append(compiled or self._scalar(expression, scope))
        names = tuple(name for name, _ in outputs[0])
        return Returning(names, tuple(types), tuple(scalars), tuple(outputs[1]))

    def _output(self, item: exp.Expr) -> list[tuple[str, exp.Expr]]:
        star = item if isinstance(item, exp.Star) else item.this if item.is_star else None
        if star is not None:
            return list(self._star(star))
        return [(output_name(item), item.unalias())]

    def _star(self, star: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
        """The output columns of `*`, `t.*`, and their forms with EXCLUDE, REPLACE and RENAME."""
        replaced = {alias.alias: alias.this for alias in star.args.get("replace") or ()}
        for block, alias, name, visible, output in star.meta["columns"]:
            if visible in replaced:
                yield output, replaced[visible]
                continue
            column = exp.column(visible, alias or None)
            column.meta["column"] = block, alias, name
            unlink(column)
            yield output, column


_Outputs = tuple[list[tuple[str, exp.Expr]], list[Lifted]]


def _relation_of(ast: exp.Expr) -> exp.Expr:
    target: exp.Expr = ast.this
    relation: exp.Expr = target.this if isinstance(target, exp.Schema) else target
    return relation


def _is_parameter(value: exp.Expr) -> TypeGuard[exp.Placeholder]:
    return isinstance(value, exp.Placeholder) and not is_lifted(value)


def _spelling(value: exp.Expr) -> str | None:
    """The literal that `value` is; None if the binder has noted that it stands for another
    value."""
    if not isinstance(value, exp.Literal) or CONSTANT in value.meta:
        return None
    return f"'{value.name}'" if value.is_string else str(value.name)


_CONSTANTS = (exp.Literal, exp.Boolean, exp.Null)
_EXACT_NUMBERS = {Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL}


def _alike(left: ColumnType | None, right: ColumnType) -> bool:
    """Are values of the two types equal in SQL exactly when they are equal in Python?"""
    if left is None:
        return False
    return left.kind is right.kind or {left.kind, right.kind} <= _EXACT_NUMBERS
