"""The compiler from a view's SELECT to a delta program, and the local executor of its stages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sqlglot import exp

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.maintain.deltas.access import (
    Ways,
    group_orders,
    ranked_calls,
    recursion_orders,
    side_lookup,
    small_relations,
)
from hornbeam_server.maintain.deltas.algebra import (
    Aggregate,
    Clock,
    Join,
    Map,
    Node,
    Partition,
    Recursion,
    Scan,
    Union,
    walk,
)
from hornbeam_server.maintain.deltas.clock import (
    CLOCK,
    as_values,
    cut_at_moments,
    reads_clock,
)
from hornbeam_server.maintain.deltas.decided import NUMBER
from hornbeam_server.maintain.deltas.executors import FEW, run, run_inputs
from hornbeam_server.maintain.deltas.expressions import check, check_repeatable, text
from hornbeam_server.maintain.deltas.lookups import Lookup
from hornbeam_server.maintain.deltas.nesting import written_out
from hornbeam_server.maintain.deltas.partials.choice import chosen, reasons_for_none
from hornbeam_server.maintain.deltas.partials.rewriting import with_partials
from hornbeam_server.maintain.deltas.range_lookups import read_whole
from hornbeam_server.maintain.deltas.recursion_rows import RecursionRows
from hornbeam_server.maintain.deltas.relations import (
    Field,
    Fields,
    describe,
    has_spans,
    labelled,
    stored_fields,
)
from hornbeam_server.maintain.deltas.rows.recursion import RecursionStage, input_map
from hornbeam_server.maintain.deltas.stages import (
    LEFT,
    RIGHT,
    SIDE,
    AggregateStage,
    Input,
    JoinStage,
    PartitionStage,
    Stage,
    ViewStage,
    side_map,
)
from hornbeam_server.maintain.deltas.states import GroupState
from hornbeam_server.maintain.deltas.stored_rows import COPY, StoredRows
from hornbeam_server.maintain.deltas.translate import Translator
from hornbeam_server.maintain.deltas.zsets import ZSet
from hornbeam_server.query.binding.binder import BoundQuery, bind_tree
from hornbeam_server.query.binding.system_tables import read_in
from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.query.dialect.overloads import leave_to_duckdb
from hornbeam_server.query.dialect.sums import KIND, SUMMED, WIDE
from hornbeam_server.query.parsing.system_signals import refuse_signals
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import Column, DeclaredView, KeyPart, Refresh
from hornbeam_server.schema.trees import nodes_of
from hornbeam_server.schema.types import UNORDERED, ColumnType, Kind
from hornbeam_server.schema.views import DeferredView, PartialAggregate, StateLayout
from hornbeam_server.storage.snapshot import RowReader


@dataclass(frozen=True)
class DeltaProgram:
    """How a view is stored and maintained. Its rows are `columns` followed by `hidden`, under
    `key`; `states` are further layouts, called `view.state`. The same SQL over the same schema
    compiles to the same program.

    `asked` is the view's SELECT for DuckDB, with AVG as a quotient (`query/dialect/sums.py`), cut
    where the microseconds of the snapshot belong. At every snapshot, DuckDB's answer to `sql_at` it
    equals the rows of `columns` to the bit. Inputs of later stages refer to `stages[i]` by the
    number *i*; the last stage writes the view.
    """

    name: str
    asked: tuple[str, ...]
    columns: tuple[Column, ...]
    hidden: tuple[Column, ...]
    key: tuple[KeyPart, ...]
    states: tuple[StateLayout, ...]
    relations: tuple[str, ...]
    stages: tuple[Stage, ...]

    @property
    def rule(self) -> str:
        """How the view is kept: by delta rules, by partition recompute, by recursion from changed
        rows, or recomputed as a whole."""
        if not self.stages:
            return "the whole SELECT, in each batch"
        partitions = [stage for stage in self.stages if isinstance(stage, PartitionStage)]
        again = [f"partition recompute by ({', '.join(stage.kept.order)})" for stage in partitions]
        again += [
            "recursion from changed rows"
            for stage in self.stages
            if isinstance(stage, RecursionStage)
        ]
        return ", ".join(["delta rules", *dict.fromkeys(again)])

    def sql_at(self, snapshot: int) -> str:
        """The view's SELECT for DuckDB, with the time of the snapshot as the current time."""
        return str(1000 * snapshot).join(self.asked)

    @property
    def whole(self) -> frozenset[str]:
        """The relations all of whose rows look-ups may read, in themselves or in what is kept of
        them."""
        joins = [stage for stage in self.stages if isinstance(stage, JoinStage)]
        lookups = [lookup for join in joins for lookup in (join.left, join.right)]
        recursions = (stage for stage in self.stages if isinstance(stage, RecursionStage))
        lookups += [stage.other for stage in recursions if stage.other is not None]
        return frozenset(name for lookup in lookups for name in read_whole(lookup))

    def explain(self) -> Iterator[str]:
        """The rule, the stages, the access path of every look-up, and the stored state, in lines of
        text."""
        yield f"kept by {self.rule}"
        for number, stage in enumerate(self.stages):
            sources = ", ".join(str(_called(part.source)) for part in stage.inputs)
            first, *more = stage.words()
            yield f"{number}. {first} (changes of {sources})"
            yield from (f"   {line}" for line in more)


def _called(source: str | int) -> str:
    if source == CLOCK:
        return "the clock"
    return source if isinstance(source, str) else f"stage {source}"


def compile_view(
    declared: DeclaredView,
    catalog: Catalog,
    *,
    partials: Sequence[PartialAggregate] = (),
    small: frozenset[str] | None = None,
    wide_sums: bool = False,
    double_quotients: bool = False,
) -> DeltaProgram:
    """Compile a declared view that keeps `partials`. Raises the binder's errors, and Unsupported,
    with the reason and a cure, for a SELECT that cannot be maintained as declared.

    `small` are the relations that look-ups may read whole (None: all of them), which is decided
    when the view is planned: the view is kept however they grow.
    `wide_sums`: sums of INTEGER are DECIMAL(38,0), as in views of earlier versions, and
    `double_quotients`: quotients and averages of NUMERIC, and EXTRACT of `epoch`, are DOUBLE.
    """
    tree = written_out(declared, catalog.schema.views)
    if double_quotients:
        tree = with_double_quotients(tree)
    if wide_sums:
        tree = tree.copy()
        for total in tree.find_all(exp.Sum):
            total.meta[WIDE] = True
    match declared.refresh:
        case Refresh.DEFERRED | Refresh.LIVE:
            found = _translated(declared, tree, catalog)
            return _program(declared, found, catalog, partials, small)
        case Refresh.RECOMPUTE:
            return _recomputed(declared, tree, catalog)
        case Refresh.IMMEDIATE | Refresh.PLAIN:
            raise AssertionError("batches do not maintain this view")


def explained(view: DeferredView, program: DeltaProgram, catalog: Catalog) -> Iterator[str]:
    """`DeltaProgram.explain` of a stored view, and why it keeps no partial aggregate where it could
    have one."""
    yield from program.explain()
    if not view.declared.refresh.follows_changes or view.partials:
        return
    tree = written_out(view.declared, catalog.schema.views)
    found = _translated(view.declared, tree, catalog)
    yield from reasons_for_none(found.result, catalog)


def planned_program(
    declared: DeclaredView, catalog: Catalog
) -> tuple[DeltaProgram, tuple[PartialAggregate, ...]]:
    """The program of a declared view with the partial aggregates that the catalog's row counts make
    worthwhile, and these; without any if their groups could not be looked up. Raises as
    `compile_view`."""
    if not declared.refresh.follows_changes:
        return compile_view(declared, catalog), ()
    found = _translated(declared, written_out(declared, catalog.schema.views), catalog)
    partials, small = chosen(found.result, catalog), small_relations(catalog)
    if partials:
        with suppress(Unsupported):
            return _program(declared, found, catalog, partials, small), partials
    return _program(declared, found, catalog, (), small), ()


def stored_program(view: DeferredView, catalog: Catalog) -> DeltaProgram | None:
    """The program that maintains a stored view; None if no program matches its stored columns."""
    stored = (view.columns, view.hidden, view.key, view.states)
    for wide, double in itertools.product((False, True), repeat=2):
        program = compile_view(
            view.declared,
            catalog,
            partials=view.partials,
            wide_sums=wide,
            double_quotients=double,
        )
        if (program.columns, program.hidden, program.key, program.states) == stored:
            return program
    return None


def outline(declared: DeclaredView, catalog: Catalog) -> DeferredView:
    """A declared view with the columns that statements read, but without its storage (key, hidden
    columns, states), which needs the compiled program. Raises the binder's errors and
    Unsupported."""
    tree = written_out(declared, catalog.schema.views)
    allowed = check_repeatable if declared.refresh is Refresh.RECOMPUTE else check
    columns = tuple(field.column() for field in _described(declared, tree, catalog, allowed))
    return DeferredView(declared, named_relations(tree, catalog), columns, (), (), ())


@dataclass(frozen=True)
class Translated:
    """A view's SELECT as algebra. `asked` is that of the program; `described` are the columns of
    the SELECT, and the fields of `result` are these and the hidden ones."""

    asked: tuple[str, ...]
    described: Fields
    result: Map

    @property
    def sql(self) -> str:
        """The SELECT for DuckDB, if it does not name the current time."""
        (sql,) = self.asked
        return sql

    @property
    def names(self) -> list[str]:
        """The names of all columns of the view; hidden ones get names that no other column has."""
        names = [field.name for field in self.described]
        for field in self.result.fields[len(names) :]:
            names.append(unlike(names, "_" + field.name.rpartition(".")[2]))
        return names


def translated(
    declared: DeclaredView, catalog: Catalog, *, double_quotients: bool = False
) -> Translated:
    """The algebra of a declared view. Raises the binder's errors and Unsupported."""
    tree = written_out(declared, catalog.schema.views)
    found = _translated(
        declared, with_double_quotients(tree) if double_quotients else tree, catalog
    )
    for node in walk(found.result):
        if isinstance(node, Partition | Clock | Recursion):
            raise Unsupported(
                f"{_cause(node)} cannot be maintained by transactions.",
                cure="Write WITH (refresh = 'live').",
            )
    return found


def _cause(node: Partition | Clock | Recursion) -> str:
    """The part of a SELECT that is the operator."""
    match node:
        case Partition():
            return node.cause
        case Clock():
            return "A condition on the current time"
        case Recursion():
            return "WITH RECURSIVE"


def with_double_quotients(tree: exp.Expr) -> exp.Expr:
    """A copy of a SELECT in which quotients, averages, roots, powers and logarithms of NUMERIC, and
    EXTRACT of `epoch`, are DOUBLE, as in views of earlier versions."""
    tree = tree.copy()
    for node in tree.walk():
        leave_to_duckdb(node)
    for called in tree.find_all(exp.Anonymous):
        if called.name == macro("epoch"):
            called.set("expressions", [exp.Literal.string("epoch"), *called.expressions])
            called.set("this", "date_part")
    for node in tree.find_all(exp.Div, exp.Avg):
        node.meta[KIND] = Kind.DOUBLE
    return tree


def _translated(declared: DeclaredView, tree: exp.Expr, catalog: Catalog) -> Translated:
    described = _described(declared, tree, catalog, check)
    if reads_clock(tree):
        tree = as_values(tree)
    translator = Translator(tree, declared.sql, catalog)
    result = translator.query(tree, {}, keep_unique=True)
    for average in tree.find_all(exp.Avg):
        if average.meta[NUMBER] in translator.averaged:  # delta rules are for exact numbers
            average.meta[SUMMED] = average.meta.get(SUMMED) or Kind.DECIMAL
    return Translated(cut_at_moments(tree), described, result)


def _program(
    declared: DeclaredView,
    found: Translated,
    catalog: Catalog,
    partials: Sequence[PartialAggregate],
    small: frozenset[str] | None,
) -> DeltaProgram:
    result = _with_one(with_partials(found.result, partials))
    return _Compiler(declared.name, catalog, replace(found, result=result), small).program()


def _recomputed(declared: DeclaredView, tree: exp.Expr, catalog: Catalog) -> DeltaProgram:
    """A program without stages. The key of a row is all its columns and the number of its copy."""
    described = _described(declared, tree, catalog, check_repeatable)
    require_keys(described)
    columns = tuple(field.column() for field in described)
    copy = Column(unlike([c.name for c in columns], COPY), ColumnType(Kind.BIGINT))
    return DeltaProgram(
        declared.name,
        (text(tree),),
        columns,
        (copy,),
        tuple(KeyPart(column.name) for column in (*columns, copy)),
        (),
        named_relations(tree, catalog),
        (),
    )


def _described(
    declared: DeclaredView,
    tree: exp.Expr,
    catalog: Catalog,
    allowed: Callable[[exp.Expr, str], None],
) -> Fields:
    """Bind a view's SELECT, check it with `allowed`, and return its columns."""
    bound = bind_tree(tree, declared.sql, catalog)
    _require_visible(bound, catalog)
    _require_stored(bound)
    refuse_signals(tree)
    allowed(tree, declared.sql)
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        raise Unsupported("A view is a SELECT.", cure="Write SELECT … FROM …")
    named_relations(tree, catalog)
    relations = {r.name: stored_fields(r.visible) for r in catalog.schema.relations}
    return labelled(describe(text(tree), relations), bound.columns)


def _require_stored(bound: BoundQuery) -> None:
    """Raises Unsupported for a SELECT that reads the system catalog, whose rows change with the
    schema."""
    if name := next(read_in(bound.ast), ""):
        raise Unsupported(
            f"A view that is stored cannot read {name}, whose rows change with the schema.",
            cure="Declare a plain view: CREATE VIEW … AS SELECT …",
        )


def _require_visible(bound: BoundQuery, catalog: Catalog) -> None:
    """Raises Unsupported for a SELECT that names the row identity of a relation."""
    for block in bound.statement.blocks:
        for alias, used in block.columns.items():
            hidden = (column.name for column in catalog.identities(block.relation(alias)))
            if name := next((name for name in hidden if name in used), None):
                raise Unsupported(
                    f"A view cannot name {name}, the hidden number of the rows of"
                    f" {block.relation(alias)}.",
                    cure="Declare a primary key, and name its columns.",
                )


def named_relations(tree: exp.Expr, catalog: Catalog) -> tuple[str, ...]:
    """The relations that a bound SELECT reads, in order. Raises Unsupported for a view."""
    names = [table.name for table in nodes_of(tree, exp.Table) if "source" in table.meta]
    views = [name for name in names if name not in catalog.schema]
    if views:
        raise Unsupported(f"{views[0]} is no relation.", cure="Name the relations it is made of.")
    return tuple(dict.fromkeys(names))


async def refresh(
    program: DeltaProgram, changes: Mapping[str, ZSet], old: RowReader, few: int = FEW
) -> list[Mutation]:
    """Run all stages in this process, in order, and return the mutations to write at S1. `changes`
    are the relations' changes from S0 to S1, and `old` reads at S0. Relations without changes may
    be left out. Inputs of up to `few` rows are worked off row by row.

    For the first build nothing is stored at S0 (`old` finds nothing), and the changes are all rows
    of all relations. This executor is the reference for every other.
    """
    zsets = dict[str | int, ZSet](changes.items())
    mutations: list[Mutation] = []
    for number, stage in enumerate(program.stages):
        result = await run(stage, run_inputs(stage, zsets, few), old, few)
        zsets[number] = result.changed
        mutations += result.mutations
    return mutations


class _Compiler:
    def __init__(
        self, name: str, catalog: Catalog, translated: Translated, small: frozenset[str] | None
    ) -> None:
        self._name = name
        self._small = small
        self._catalog = catalog
        self._translated = translated
        self._described, self._result = translated.described, translated.result
        self._nodes = list(walk(self._result))
        aggregates = [node for node in self._nodes if isinstance(node, Aggregate)]
        orders, ranked = group_orders(self._nodes), ranked_calls(self._nodes)
        self._states = {
            id(node): GroupState(
                name,
                i,
                node,
                orders.get(id(node), tuple(group.name for group in node.groups)),
                ranked.get(id(node), ()),
            )
            for i, node in enumerate(aggregates)
        }
        partitions = [node for node in self._nodes if isinstance(node, Partition)]
        self._kept = {
            id(node): _kept_rows(name, i, node, orders.get(id(node), node.by))
            for i, node in enumerate(partitions)
        }
        by_recursion = recursion_orders(self._nodes)
        recursions = [node for node in self._nodes if isinstance(node, Recursion)]
        self._recursive = {
            id(node): RecursionRows(name, i, node.fields, by_recursion[id(node)])
            for i, node in enumerate(recursions)
        }
        self._stage_of: dict[int, int] = {}

    def program(self) -> DeltaProgram:
        stages: list[Stage] = []
        for node in self._nodes:
            if isinstance(node, Join):
                stage: Stage = self._join(node, *self._lookups(node))
            elif isinstance(node, Aggregate):
                stage = AggregateStage(self._states[id(node)], self._inputs(node.input))
            elif isinstance(node, Partition):
                stage = PartitionStage(node, self._kept[id(node)], self._inputs(node.input))
            elif isinstance(node, Recursion):
                stage = self._recursion(node)
            else:
                continue
            self._stage_of[id(node)] = len(stages)
            stages.append(stage)
        view = self._view()
        width = len(self._described)
        scans = [node.relation for node in self._nodes if isinstance(node, Scan)]
        return DeltaProgram(
            self._name,
            self._translated.asked,
            view.stored.state.columns[:width],
            view.stored.state.columns[width:],
            view.stored.state.key,
            (
                *(layout for state in self._states.values() for layout in state.layouts),
                *(kept.state for kept in self._kept.values()),
                *(state for kept in self._recursive.values() for state in kept.states),
            ),
            tuple(dict.fromkeys(scans)),
            (*stages, view),
        )

    @property
    def _ways(self) -> Ways:
        states, kept, recursive = self._states, self._kept, self._recursive
        return Ways(
            self._catalog,
            lambda node: states[id(node)],
            lambda node: kept[id(node)],
            lambda node: recursive[id(node)],
            self._small,
        )

    def _lookups(self, join: Join) -> tuple[Lookup, Lookup]:
        right = side_lookup(join, RIGHT, self._ways)
        return side_lookup(join, LEFT, self._ways), right

    def _recursion(self, node: Recursion) -> RecursionStage:
        inputs = [
            replace(part, maps=(*part.maps, input_map(node, side)))
            for side, below in enumerate(node.inputs)
            for part in self._inputs(below)
        ]
        other = None if node.join is None else side_lookup(node.join, LEFT, self._ways)
        return RecursionStage(node, self._recursive[id(node)], tuple(inputs), other)

    def _join(self, join: Join, left: Lookup, right: Lookup) -> JoinStage:
        keys = tuple(_common(join, i) for i in range(len(join.keys)))
        columns = (*join.left.fields, *join.right.fields, SIDE, *keys)
        inputs = [
            replace(part, maps=(*part.maps, side_map(join, side, keys)))
            for node, side in ((join.left, LEFT), (join.right, RIGHT))
            for part in self._inputs(node)
        ]
        by = tuple(key.name for key in keys)
        return JoinStage(join, tuple(inputs), columns, by, left, right)

    def _inputs(self, node: Node) -> tuple[Input, ...]:
        """The sources of an operator's changes, through filters, projections and unions."""
        match node:
            case Scan():
                columns = tuple(
                    replace(field, name=column)
                    for column, field in zip(node.columns, node.fields, strict=True)
                )
                return (Input(node.relation, columns, node.fields, ()),)
            case Clock():
                return (Input(CLOCK, node.fields, node.fields, ()),)
            case Map():
                below = self._inputs(node.input)
                return tuple(replace(part, maps=(*part.maps, node)) for part in below)
            case Union():
                return tuple(found for part in node.parts for found in self._inputs(part))
            case Join() | Aggregate() | Partition() | Recursion():
                return (Input(self._stage_of[id(node)], node.fields, node.fields, ()),)
        raise AssertionError(node)

    def _view(self) -> ViewStage:
        result, unique = self._result, self._result.unique
        names = self._translated.names
        types = [f.type for f in (*self._described, *result.fields[len(self._described) :])]
        columns = [Column(name, type_) for name, type_ in zip(names, types, strict=True)]
        if unique is None:
            require_keys(result.fields)
            _require_one_form(result.fields)
            columns.append(Column(unlike(names, COPY), ColumnType(Kind.BIGINT)))
            key = [column.name for column in columns]
        else:
            places = list(zip(names, result.fields, strict=True))
            key = [name for name, field in places if field.name in unique]
            _require_one_form([field for _, field in places if field.name in unique])
        state = StateLayout("", tuple(columns), tuple(KeyPart(column) for column in key))
        by = tuple(f.name for f in result.fields if unique is None or f.name in unique)
        partition = () if unique == frozenset({_ONLY.name}) else by
        inputs = self._inputs(result)
        every = tuple(range(len(result.fields)))
        stored = StoredRows(self._name, self._name, state, result.fields, every, unique is None)
        return ViewStage(stored, inputs, partition)


def _kept_rows(view: str, number: int, node: Partition, order: Sequence[str]) -> StoredRows:
    """How the rows of a partition's input are stored: first the columns that are the key, then the
    others. The columns `order` are the beginning of the key."""
    fields, unique = node.input.fields, node.input.unique
    names = [field.name for field in fields]
    if unique is None:
        require_keys(fields)
        _require_one_form(fields)
    key = [*order, *(n for n in names if n not in order and (unique is None or n in unique))]
    places = tuple(map(names.index, [*key, *(name for name in names if name not in key)]))
    columns = [Column(f"c{i}", fields[place].type) for i, place in enumerate(places)]
    if unique is None:
        columns.append(Column(COPY, ColumnType(Kind.BIGINT)))
    keys = tuple(KeyPart(c.name) for c in columns[: len(key) if unique is not None else None])
    state = StateLayout(f"rows{number}", tuple(columns), keys)
    stored = (f"{view}.{state.name}", state, fields, places, unique is None)
    return StoredRows(view, *stored, tuple(order))


def require_keys(fields: Fields) -> None:
    """Raise Unsupported if rows with these columns cannot have all columns as their key."""
    for field in fields:
        if field.type.kind in UNORDERED:
            raise Unsupported(
                f"No columns identify the view's rows, and {field.name}, being {field.type.sql()},"
                " can be no part of a key.",
                cure="Select the keys of the relations, or CAST it to TEXT.",
            )


def _require_one_form(key: Sequence[Field]) -> None:
    """Raise Unsupported for a key in which equal values may have other bytes."""
    for field in key:
        if has_spans(field):
            raise Unsupported(
                f"The view's rows are identified by the INTERVAL column {field.name}, and equal"
                " intervals may have other months, days and seconds.",
                cure="Select the keys of the relations, or CAST it to TEXT.",
            )


_ONLY = Field("hidden.one", "INTEGER", ColumnType(Kind.INTEGER), nullable=False)


def _with_one(result: Map) -> Map:
    """Give the only row of a view a key: a constant in a hidden column."""
    if result.unique != frozenset():
        return result
    return Map(
        result.input,
        (*result.fields, _ONLY),
        (*result.expressions, "1"),
        result.where,
        result.passes,
        frozenset({_ONLY.name}),
    )


def _common(join: Join, i: int) -> Field:
    """The key column number `i`, of a type that holds the values of both sides."""
    left, right = join.left.field[join.keys[i][0]], join.right.field[join.keys[i][1]]
    if left.duck == right.duck:
        return Field(f"_k{i}", left.duck, left.type)
    sql = "SELECT a FROM l UNION ALL SELECT b FROM r"
    tables = {"l": (Field("a", left.duck, left.type),), "r": (Field("b", right.duck, right.type),)}
    found = describe(sql, tables)[0]
    return Field(f"_k{i}", found.duck, found.type)


def unlike(names: Sequence[str], name: str) -> str:
    """`name`, with a number if it is one of `names`."""
    free = (f"{name}_{number}" if number > 1 else name for number in itertools.count(1))
    return next(found for found in free if found not in names)
