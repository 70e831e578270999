"""Plan DDL and workload texts: the plan, and the catalog that it would put into force."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

import msgspec

from hornbeam_server.maintain.copies import converter
from hornbeam_server.maintain.deltas.access import small_relations
from hornbeam_server.maintain.deltas.catalog_programs import all_readable
from hornbeam_server.maintain.deltas.nesting import written_out
from hornbeam_server.maintain.deltas.program import (
    DeltaProgram,
    compile_view,
    outline,
    planned_program,
    stored_program,
)
from hornbeam_server.maintain.immediate.definition import Definition
from hornbeam_server.maintain.immediate.program import program_of as immediate_program
from hornbeam_server.maintain.immediate.projected import define_any, projected_program
from hornbeam_server.maintain.immediate.view_indexes import view_index
from hornbeam_server.maintain.plain_views import plain_view
from hornbeam_server.node.kept_names import with_kept_names
from hornbeam_server.node.planned_comments import planned_comments
from hornbeam_server.node.schema_problems import checked
from hornbeam_server.query.binding.algebra import BoundStatement
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.binding.canonical import canonical
from hornbeam_server.query.binding.renaming import renamed
from hornbeam_server.schema.altered import placed
from hornbeam_server.schema.catalog import Catalog, Forest, Index, State, WorkloadStatement
from hornbeam_server.schema.codec import encode_catalog
from hornbeam_server.schema.copies import Using
from hornbeam_server.schema.ddl import STATEMENT, read_file, render_ddl
from hornbeam_server.schema.ddl.load import schema_of
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.diff import DiffRow, SchemaDiff, diff, refreshed
from hornbeam_server.schema.drafts import Place
from hornbeam_server.schema.enumerated import in_positions, with_labels
from hornbeam_server.schema.errors import (
    InvalidRequest,
    SchemaError,
    SqlError,
    Unsupported,
    capitalised,
)
from hornbeam_server.schema.model import Column, DeclaredIndex, DeclaredView, Refresh, Schema
from hornbeam_server.schema.problems import Problems
from hornbeam_server.schema.renames import Rename
from hornbeam_server.schema.stages import FirstStage, added_names, first_stage, with_hidden
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.views import (
    DeferredView,
    ImmediateView,
    PartialAggregate,
    PlainView,
    ProjectedView,
    TransactionalView,
)
from hornbeam_server.schema.workload import load_query_log, load_workload, weighted_by_log
from hornbeam_server.viewselect.aggregates import AggregateInputs
from hornbeam_server.viewselect.plan import PlanOptions, SelectionPlan, Statistics, plan
from hornbeam_server.viewselect.watch import Report, Watch

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The inputs of a plan, as an administrator uploads them. `roots` None: learn the roots."""

    ddl: str
    workload: str | None = ""
    """None: the workload in force, with the new names of `renames`."""
    roots: tuple[str, ...] | None = None
    method: str = "optimal"
    budget: float | None = None
    row_counts: Mapping[str, int] = field(default_factory=dict)
    ddl_file: str = "<ddl>"
    source: Source | None = None
    """The dialect of the DDL; None: it is recognised."""
    workload_file: str = "<workload>"
    query_log: str = ""
    """One statement per line, or JSON lines with `sql` and `count`. It weighs the workload."""
    aggregates: bool = True
    """Aggregate views may be chosen."""
    renames: tuple[Rename, ...] = ()
    """Columns in force that the DDL and the workload call by other names."""
    usings: tuple[Using, ...] = ()
    """The values of columns that get another type."""
    hidden: tuple[tuple[str, Column], ...] = ()
    """The columns that relations have besides those of the DDL, in the first of two stages."""


@dataclass(frozen=True, slots=True)
class PlannedSchema:
    """A plan, the changes that it makes, and the catalog that it would put into force. `rebuilt`
    names declared views in force that lose their rows, because their declaration, or the relations
    or views that they read, have changed. `first` is the request for what must be in force before
    (`schema/stages.py`)."""

    plan_id: str
    base_version: int
    plan: SelectionPlan
    changes: SchemaDiff
    rebuilt: tuple[str, ...]
    catalog: Catalog
    first: PlanRequest | None = None
    commented: tuple[DiffRow, ...] = ()
    """The comments that the plan sets or takes away."""

    def rewritten(self) -> Iterator[DiffRow]:
        """The relations whose rows are written again, with their numbers of rows."""
        for copy in self.changes.copies:
            rows = self.catalog.row_count.get(copy.relation, 0)
            detail = (
                f"about {rows} rows, while transactions go on; it takes effect when all are written"
            )
            yield DiffRow("rewrite", "relation", copy.relation, detail)

    def declared(self) -> Iterator[DiffRow]:
        """What the plan does to the declared views that it builds, changes or drops."""
        added = {view.name: view for view in self.changes.added_views}
        dropped = {view.name: view for view in self.changes.dropped_views}
        for name in dropped.keys() - added.keys():
            yield DiffRow("drop", "view", name, refreshed(dropped[name]))
        for name, view in added.items():
            if name not in dropped or view.refresh is Refresh.PLAIN:
                action = "add" if view.refresh is Refresh.PLAIN else "build"
                yield DiffRow(action, "view", name, refreshed(view))
                continue
            lost = name in self.rebuilt
            then = "built again, and unreadable until then" if lost else "its rows stay"
            yield DiffRow("change", "view", name, f"{refreshed(view)}; {then}")
        for name in self.rebuilt:
            if name not in added:
                why = "what it reads has changed; it is unreadable until it is built again"
                yield DiffRow("build", "view", name, why)


async def in_thread(work: Callable[[Watch], T], report: Report = lambda _: None) -> T:
    """The result of `work`, which plans in a thread and ends when the caller is cancelled.
    `report` is called in that thread with the share of the work that is done, from 0 to 1."""
    watch = Watch(report)
    try:
        return await asyncio.to_thread(work, watch)
    except asyncio.CancelledError:
        watch.stop()
        raise


def plan_schema(
    request: PlanRequest, current: Catalog, watch: Watch | None = None
) -> PlannedSchema:
    """Plan against the catalog in force. Raises SchemaError and SqlError with their places in the
    texts, and all errors of a text in the detail `problems`; and StatementTimeout when `watch` is
    stopped."""
    watch = Watch() if watch is None else watch
    in_force, current = current, renamed(current, request.renames)
    reading = read_file(request.ddl, request.ddl_file, request.source)
    declared = in_positions(schema_of(checked(reading)), current.schema)
    declared = with_hidden(declared, request.hidden)
    stage = None if request.renames else first_stage(current.schema, declared)
    if stage is not None:
        return _in_stages(request, stage, current, watch)
    current = _with_new_labels(current, declared)
    changes = _changes(current, declared, request)
    if changes.refused:
        raise SchemaError(
            "This schema cannot follow the one in force: "
            + "; ".join(f"{r.change} of {r.relation}.{r.name}: {r.reason}" for r in changes.refused)
            + ".",
            cure=capitalised("; ".join(dict.fromkeys(r.cure for r in changes.refused)) + "."),
        )
    _require_convertible(changes, current)
    schema = placed(declared, current.schema, changes.copies)
    statements = _statements(request, current)
    schema = with_kept_names(schema, current)
    schema, base = _with_outlines(schema, current, request)
    comments = planned_comments(reading, current, base)
    schema = replace(schema, notes=(*schema.notes, *comments.notes))
    changes = _changes(current, schema, request)
    bound = _all_bound(statements, base, request, watch)
    counts = {**current.row_count, **request.row_counts}
    selection = plan(
        schema,
        bound,
        PlanOptions(
            roots=request.roots,
            learn_roots=request.roots is None,
            method=request.method,
            budget=request.budget,
            aggregates=request.aggregates,
        ),
        Statistics(
            row_counts={n: c for n, c in counts.items() if n in schema},
            expected=frozenset(request.row_counts),
        ),
        base=current,
        watch=watch,
        inputs=AggregateInputs(base, stored_aggregate, stored=_chosen_selects(current)),
    )
    chosen = selection.to_catalog(current.version + 1, current, changes.copies)
    chosen = replace(chosen, plain=base.plain, comments=comments.comments)
    catalog = _with_deferred(chosen, current, request)
    if request.hidden:
        catalog = replace(catalog, staged=added_names(current.schema, catalog.schema))
    plan_id = _plan_id(request, in_force, catalog)
    rebuilt = _rebuilt(catalog, current)
    return PlannedSchema(
        plan_id,
        current.version,
        selection,
        changes,
        rebuilt,
        catalog,
        commented=comments.changes,
    )


def _statements(request: PlanRequest, current: Catalog) -> tuple[WorkloadStatement, ...]:
    """The workload of a plan, weighted by the query log if there is one. Raises SqlError."""
    statements = current.workload
    if request.workload is not None:
        statements = load_workload(request.workload, request.workload_file)
    if request.query_log:
        log = load_query_log(request.query_log.splitlines(), "<query log>")
        statements = weighted_by_log(statements, log)
    return statements


def _all_bound(
    statements: Iterable[WorkloadStatement], base: Catalog, request: PlanRequest, watch: Watch
) -> list[tuple[WorkloadStatement, BoundStatement]]:
    """The statements with what they mean under `base`. Raises SqlError with the errors of all of
    them, and StatementTimeout."""
    bound, problems = [], Problems()
    for statement in statements:
        watch.check()
        with problems.collect():
            bound.append((statement, _bound(statement, base, request)))
    problems.require_none()
    return bound


def _in_stages(
    request: PlanRequest, stage: FirstStage, current: Catalog, watch: Watch
) -> PlannedSchema:
    """The plan over the catalog in which `stage` is in force, with the changes that lead there.
    Raises the errors of `plan_schema`."""
    first = replace(
        request,
        ddl=render_ddl(stage.base),
        hidden=stage.columns,
        ddl_file=STATEMENT,
        source=None,
        workload=None,
        query_log="",
        roots=None if request.roots is None else tuple(r for r in request.roots if r in stage.base),
        usings=(),
    )
    begun = plan_schema(first, current, watch)
    between = all_readable(replace(begun.catalog, copies=()))
    planned = plan_schema(request, between, watch)
    changes = replace(
        planned.changes,
        added_sequences=(*begun.changes.added_sequences, *planned.changes.added_sequences),
        copies=(*begun.changes.copies, *planned.changes.copies),
    )
    return replace(
        planned,
        plan_id=hashlib.sha256(f"{begun.plan_id} {planned.plan_id}".encode()).hexdigest()[:16],
        base_version=begun.base_version,
        changes=changes,
        rebuilt=tuple(dict.fromkeys((*begun.rebuilt, *planned.rebuilt))),
        first=first,
    )


def _changes(current: Catalog, declared: Schema, request: PlanRequest) -> SchemaDiff:
    """The changes to the schema `declared`. Those that need a relation without rows are refused if
    it is known to have some; otherwise its rows are counted when the plan is put into force."""
    found = diff(current.schema, declared, request.usings)
    refused = tuple(
        each
        for each in found.refused
        if not each.only_with_rows or current.row_count.get(each.relation)
    )
    return replace(found, renames=request.renames, refused=tuple(refused))


def _with_new_labels(current: Catalog, declared: Schema) -> Catalog:
    """The catalog in force, whose columns have the labels that `declared` adds: no row changes. Its
    list of enumerations stays."""
    before = {enumeration.full: enumeration for enumeration in current.schema.enumerations}
    grown = {
        each.full: each
        for each in declared.enumerations
        if each.full in before and each != before[each.full] and each.holds(before[each.full])
    }
    changed = with_labels(current, grown)
    schema = replace(changed.schema, enumerations=current.schema.enumerations)
    return replace(changed, schema=schema)


def _require_convertible(changes: SchemaDiff, current: Catalog) -> None:
    """Raises SqlError for a column whose values cannot be converted in a transaction, and
    InvalidRequest for renames beside copies."""
    for copy in changes.copies:
        converter(current.schema.relation(copy.relation), copy)
    if changes.copies and changes.renames:
        renames, copies = map(str, changes.renames), (copy.relation for copy in changes.copies)
        raise InvalidRequest(
            f"The plan renames {', '.join(renames)}, and writes all rows of {', '.join(copies)}"
            " again.",
            cure="Apply the renames first, and the other changes behind them.",
        )


def _with_outlines(
    schema: Schema, current: Catalog, request: PlanRequest
) -> tuple[Schema, Catalog]:
    """`schema`, and a catalog of the names that a workload may use: relations, and the views of
    `schema`. A file may have plain views that Hornbeam cannot read: unless one of them is in force,
    it is passed over with a note, since it holds no rows.

    Raises SqlError with the place in the DDL file where the view's SELECT begins, and all errors of
    views in its detail `problems`.
    """
    base = Catalog(0, schema, Forest(schema.names))
    # The error for a declared view that names a chosen view must not say that there is none.
    chosen = tuple(view for view in current.views if set(view.path) <= set(schema.names))
    known = replace(base, views=chosen, states=tuple((v.name, State.READABLE) for v in chosen))
    views: list[DeferredView] = []
    plain: list[PlainView] = []
    notes, problems = list[str](), Problems()
    for declared in schema.views:
        read = [(view.name, "") for view in schema.views if view.name in declared.sql]
        subject = (declared.name, "")
        with (
            problems.collect(subject, spoils=True, about=read),
            _errors_located(declared, known, request),
        ):
            if declared.refresh is not Refresh.PLAIN:
                views.append(outline(declared, known))
                continue
            readable = _readable(base, views, plain)
            try:
                plain.append(plain_view(declared, readable))
            except SqlError as error:
                if request.ddl_file == STATEMENT or declared in current.schema.views:
                    raise
                notes.append(f"passed over: view {declared.name}: {error.message}")
    problems.require_none()
    named = [view.name for view in views] + [view.name for view in plain]
    kept = tuple(declared for declared in schema.views if declared.name in named)
    schema = replace(schema, views=kept, notes=(*schema.notes, *notes))
    return schema, _readable(replace(base, schema=schema), views, plain)


def _readable(
    catalog: Catalog, views: Sequence[DeferredView], plain: Sequence[PlainView]
) -> Catalog:
    """`catalog` with more views, all of them readable."""
    states = (*catalog.states, *((view.name, State.READABLE) for view in views))
    return replace(catalog, deferred=tuple(views), plain=tuple(plain), states=states)


def stored_view(declared: DeclaredView, catalog: Catalog) -> TransactionalView:
    """An immediate view as it is stored. Raises Unsupported if transactions cannot maintain it."""
    definition = define_any(declared, catalog)
    if isinstance(definition, Definition):
        immediate_program(definition, catalog)
    else:
        projected_program(definition, catalog)
    return definition.view


def stored_aggregate(declared: DeclaredView, catalog: Catalog) -> ImmediateView:
    """The same for a SELECT with aggregates. Raises Unsupported for one without."""
    view = stored_view(declared, catalog)
    if isinstance(view, ImmediateView):
        return view
    raise Unsupported(f"View {view.name} has no aggregates.")


def _chosen_selects(catalog: Catalog) -> dict[str, str]:
    """The SELECTs of the chosen aggregate views, by name."""
    return {view.name: view.declared.sql for view in catalog.immediate if view.chosen}


def _bound(statement: WorkloadStatement, base: Catalog, request: PlanRequest) -> BoundStatement:
    """Bind a statement. Raises SqlError with the place in the workload file where it begins."""
    try:
        bound = bind(statement.sql, base)
    except SqlError as error:
        text = request.workload or ""
        place = Place.at(text, max(0, text.find(statement.sql)), request.workload_file)
        error.details["statement"] = statement.name
        raise _located(error, f"In statement {statement.name}", place) from None
    unlink(bound.ast)
    return bound.statement


def _located(error: SqlError, what: str, place: Place) -> SqlError:
    message = f"{what}: {error.message}"
    return type(error)(message, cure=error.cure, **error.details | asdict(place))


def _with_deferred(catalog: Catalog, base: Catalog, request: PlanRequest) -> Catalog:
    """`catalog` with the views that its schema declares, besides chosen aggregate views. A view of
    `base` keeps its rows if it is stored in the same way, and reads the same tables by the same
    SELECT.

    Raises SqlError with the place in the DDL file where the view's SELECT begins.
    """
    numbers, states = dict(catalog.incarnations), dict(catalog.states)
    deferred = [
        _deferred(declared, catalog, base, request)
        for declared in catalog.schema.views
        if declared.refresh.is_batched
    ]
    immediate = [
        _immediate(declared, catalog, request)
        for declared in catalog.schema.views
        if declared.refresh is Refresh.IMMEDIATE
    ]
    immediate += catalog.immediate
    views: list[DeferredView | TransactionalView] = [*deferred, *immediate]
    for view in views:
        number = dict(base.incarnations).get(view.name, 0)
        kept = _keeps_rows(view, catalog, base)
        numbers[view.name] = number if kept else number + 1
        states[view.name] = base.state[view.name] if kept else State.BUILDING
    indexes = list(_view_indexes(catalog, {view.name: view for view in immediate}, request))
    for index in indexes:
        before = base.index.get(index.name)
        kept = before == index and states[index.on] == base.state.get(index.on)
        kept = kept and numbers[index.on] == dict(base.incarnations).get(index.on)
        numbers[index.name] = dict(base.incarnations).get(index.name, 0) + int(not kept)
        states[index.name] = base.state[index.name] if kept else State.BUILDING
    return replace(
        catalog,
        indexes=(*catalog.indexes, *indexes),
        deferred=tuple(deferred),
        immediate=tuple(view for view in immediate if isinstance(view, ImmediateView)),
        projected=tuple(view for view in immediate if isinstance(view, ProjectedView)),
        incarnations=tuple(numbers.items()),
        states=tuple(states.items()),
    )


def _rebuilt(catalog: Catalog, base: Catalog) -> tuple[str, ...]:
    after, before = dict(catalog.incarnations), dict(base.incarnations)
    kept = (name for name in catalog.declared_view if name in base.declared_view)
    return tuple(name for name in kept if after[name] != before[name])


def _deferred(
    declared: DeclaredView, catalog: Catalog, base: Catalog, request: PlanRequest
) -> DeferredView:
    """A view as it is stored. If it keeps its rows, it has the partial aggregates that it had."""
    before = base.deferred_view.get(declared.name)
    if before is not None:
        with suppress(SqlError):
            program = _kept_program(declared, before, catalog, base)
            kept = _stored(declared, program, before.partials)
            if _keeps_rows(kept, catalog, base):
                return kept
    with _errors_located(declared, catalog, request):
        return planned_view(declared, catalog)


def _kept_program(
    declared: DeclaredView, before: DeferredView, catalog: Catalog, base: Catalog
) -> DeltaProgram:
    """The program of a view as it was planned `before`. Its look-ups go on to read the relations
    whole that were small then. Raises the errors of `compile_view`."""
    readable, small = all_readable(catalog), small_relations(catalog)
    try:
        return compile_view(declared, readable, partials=before.partials, small=small)
    except Unsupported:
        small |= program_of(base, declared.name).whole
        return compile_view(declared, readable, partials=before.partials, small=small)


def planned_view(declared: DeclaredView, catalog: Catalog) -> DeferredView:
    """A declared view as it is stored when it is built now, with the partial aggregates that the
    catalog's row counts make worthwhile. Raises the errors of `compile_view`."""
    return _stored(declared, *planned_program(declared, all_readable(catalog)))


def rebuilt_view(view: DeferredView, catalog: Catalog) -> DeferredView:
    """A stored view with the partial aggregates that the catalog's row counts make worthwhile now.
    It stays as it is if this version stores other columns for its SELECT, or does not compile
    it."""
    with suppress(SqlError):
        planned = planned_view(view.declared, catalog)
        if replace(planned, states=view.states, partials=view.partials) == view:
            return planned
    return view


def _stored(
    declared: DeclaredView, program: DeltaProgram, partials: tuple[PartialAggregate, ...]
) -> DeferredView:
    return DeferredView(
        declared,
        program.relations,
        program.columns,
        program.hidden,
        program.key,
        program.states,
        partials,
    )


def _immediate(declared: DeclaredView, catalog: Catalog, request: PlanRequest) -> TransactionalView:
    with _errors_located(declared, catalog, request):
        return stored_view(declared, all_readable(catalog))


def _view_indexes(
    catalog: Catalog, views: Mapping[str, TransactionalView], request: PlanRequest
) -> Iterator[Index]:
    """The indexes that the schema declares on views. Raises SqlError with the place in the DDL file
    where the index is declared."""
    for declared in catalog.schema.indexes:
        view = views.get(declared.relation)
        if view is None:
            continue
        try:
            yield view_index(declared, view)
        except SqlError as error:
            place = Place.at(request.ddl, _begin_of(declared, request.ddl), request.ddl_file)
            raise _located(error, f"In index {declared.name}", place) from None


def _begin_of(index: DeclaredIndex, ddl: str) -> int:
    """The offset at which the index is declared; its name may be generated."""
    on = rf'\bINDEX\b[^;]*\bON\s+"?{re.escape(index.relation)}\b'
    found = list(re.finditer(on, ddl, re.IGNORECASE))
    named = (match for match in found if index.name in match[0])
    match = next(named, found[0] if found else None)
    return match.start() if match is not None else 0


@contextmanager
def _errors_located(
    declared: DeclaredView, catalog: Catalog, request: PlanRequest
) -> Iterator[None]:
    """Add the view's name and its place to errors. If recomputing the view in each batch would
    work, the cure says so."""
    try:
        yield
    except SqlError as error:
        error.details["view"] = declared.name
        place = Place.at(request.ddl, _begin_of_view(declared, request.ddl), request.ddl_file)
        if isinstance(error, Unsupported) and _can_be_answered(declared, catalog):
            recompute = "have it recomputed: refresh = 'recompute'."
            cure = error.cure.rstrip(".")
            error.cure = f"{cure}; or {recompute}" if cure else capitalised(recompute)
        raise _located(error, f"In view {declared.name}", place) from None


def _begin_of_view(declared: DeclaredView, ddl: str) -> int:
    """The offset of the SELECT of a view, or of its name if columns are listed behind it."""
    found = ddl.find(declared.sql)
    named = re.search(rf'\bVIEW\s+"?{re.escape(declared.name)}\b', ddl, re.IGNORECASE)
    return found if found >= 0 or named is None else named.start()


def _can_be_answered(declared: DeclaredView, catalog: Catalog) -> bool:
    """Could the view be recomputed in each batch, instead of being maintained from changes?"""
    if declared.refresh in (Refresh.RECOMPUTE, Refresh.PLAIN):
        return False
    try:
        _compiled(replace(declared, refresh=Refresh.RECOMPUTE), catalog)
    except SqlError:
        return False
    return True


def _compiled(declared: DeclaredView, catalog: Catalog) -> DeltaProgram:
    """The program of a view once all indexes and views are readable: they are built before the
    first batch that looks rows up in them."""
    return compile_view(declared, all_readable(catalog))


def program_of(catalog: Catalog, name: str) -> DeltaProgram:
    """The program that maintains a deferred view. Raises KeyError."""
    view = catalog.deferred_view[name]
    return stored_program(view, all_readable(catalog)) or _compiled(view.declared, catalog)


def _keeps_rows(view: DeferredView | TransactionalView, catalog: Catalog, base: Catalog) -> bool:
    before = base.declared_view.get(view.name)
    if before is None:
        return False
    if isinstance(before, ImmediateView) and isinstance(view, ImmediateView):
        before = replace(before, chosen=view.chosen)
    groups = {(each.declared.group, each.declared.refresh) for each in (view, before)}
    same = len(groups) == 1 and replace(before, declared=view.declared) == view
    rows = all(
        name in base.schema and base.layout(name).table == catalog.layout(name).table
        for name in view.relations
    )
    return same and rows and _select(view, catalog) == _select(before, base)


def _select(view: DeferredView | TransactionalView, catalog: Catalog) -> str:
    """The SELECT of a view in one spelling, with the SELECTs of the views that it names written
    out."""
    tree = written_out(view.declared, catalog.schema.views)
    return canonical(tree, view.declared.sql, all_readable(catalog))


def _without_estimates(view: DeferredView) -> DeferredView:
    return replace(view, partials=tuple(replace(p, rows=0, groups=0) for p in view.partials))


def _plan_id(request: PlanRequest, current: Catalog, planned: Catalog) -> str:
    """A digest of the inputs, the catalog in force and the planned catalog: equal ids mean equal
    plans. States are left out, because builds end at any time. Row counts drift all the time, so
    they, and what is estimated from them, matter only if they change the choice."""
    inputs = msgspec.json.encode(
        (
            request.ddl,
            request.workload,
            request.query_log,
            request.roots,
            request.method,
            request.budget,
            request.aggregates,
            list(map(str, request.renames)),
            list(map(str, request.usings)),
        )
    )
    catalogs = [
        encode_catalog(
            replace(
                catalog,
                version=0,
                row_counts=(),
                states=(),
                since=0,
                deferred=tuple(map(_without_estimates, catalog.deferred)),
            )
        )
        for catalog in (current, planned)
    ]
    return hashlib.sha256(b"\0".join([inputs, *catalogs])).hexdigest()[:16]
