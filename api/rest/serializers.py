"""JSON documents of the database's results: plain dictionaries that msgspec encodes.

msgspec writes decimals, dates, times, timestamps and UUIDs as text, and bytes as base64, all
exactly. JSON has no infinities and no NaN: they are written "Infinity", "-Infinity" and "NaN",
which a DOUBLE parameter accepts. A TIMESTAMPTZ has the offset +00:00, an INTERVAL PostgreSQL's
text.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from hornbeam_server.api.rest.metrics import now_s
from hornbeam_server.api.rest.schema_documents import (
    comment_document,
    domain_declared,
    index_document,
    indexes_on,
    relation_document,
    sequence_document,
    trees_document,
)
from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.maintain.deltas.program import explained
from hornbeam_server.maintain.immediate.projected import compile_transactional
from hornbeam_server.maintain.recompute import scanned_relation
from hornbeam_server.maintain.spans import Span
from hornbeam_server.node.schema_plans import program_of
from hornbeam_server.query.binding.binder import OutputColumn
from hornbeam_server.query.command_tags import command_tag
from hornbeam_server.query.explain import Explanation, Shown
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.codec import encode_catalog
from hornbeam_server.schema.comments import Commented, render_comments
from hornbeam_server.schema.ddl import render_ddl
from hornbeam_server.schema.diff import DiffRow
from hornbeam_server.schema.enumerations import Label
from hornbeam_server.schema.intervals import Interval
from hornbeam_server.schema.model import (
    PUBLIC,
)
from hornbeam_server.schema.reals import shortest
from hornbeam_server.schema.types import Kind, Row, Value
from hornbeam_server.schema.views import DeferredView, PlainView, TransactionalView
from hornbeam_server.storage.read_ranges import ReadRange
from hornbeam_server.txlayer.statements.requests import (
    StatementResult,
    Timings,
    TransactionResult,
)
from hornbeam_server.txlayer.views.refresh_groups import GroupState, named
from hornbeam_server.txlayer.views.verify import VerifyReport

if TYPE_CHECKING:
    from hornbeam_server.node.bulk_access import DeferredBatch
    from hornbeam_server.node.change_feed import Changes
    from hornbeam_server.node.database import Database
    from hornbeam_server.node.deferred_views import GroupStatus
    from hornbeam_server.node.exports import Export
    from hornbeam_server.node.live.lags import Lags
    from hornbeam_server.node.live.maintainer import Upkeep
    from hornbeam_server.node.query_stages import Answered, DirectResult
    from hornbeam_server.node.schema_plans import PlannedSchema

_SPELLED = {Kind.DOUBLE, Kind.TIMESTAMPTZ, Kind.INTERVAL, Kind.ARRAY, Kind.ENUM, None}
"""Kinds with values that need `json_value`; None: the kind is not known."""


def json_value(value: Value) -> Value:
    """`value`, or its text where msgspec would write another text or null."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.isoformat()
    if isinstance(value, tuple):
        return tuple([json_value(each) for each in value])  # type: ignore[misc]
    return str(value) if isinstance(value, Interval | Label) else value


def json_rows(rows: Sequence[Row], columns: Sequence[OutputColumn]) -> Sequence[Row]:
    """`rows` with all values ready for msgspec; `rows` itself if no column needs a conversion."""
    types = [column.type for column in columns]
    if _SPELLED.isdisjoint(None if type_ is None else type_.kind for type_ in types):
        return rows
    shown = [tuple(map(json_value, row)) for row in rows]
    return with_shortest_reals(shown, [None if type_ is None else type_.sql() for type_ in types])


def with_shortest_reals(rows: Sequence[Row], types: Sequence[str | None]) -> Sequence[Row]:
    """`rows`, whose columns have these SQL types, with the digits that a REAL is shown with."""
    reals = [i for i, type_ in enumerate(types) if type_ in _REALS]
    if not reals:
        return rows
    changed = [list(row) for row in rows]
    for row in changed:
        for i in reals:
            row[i] = _shortest(row[i])
    return [tuple(row) for row in changed]


_REALS = frozenset({"REAL", "REAL[]"})


def _shortest(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple([_shortest(each) for each in value])  # type: ignore[misc]
    return shortest(value) if isinstance(value, float) else value


def column_documents(columns: Sequence[OutputColumn]) -> list[dict[str, Any]]:
    """The names and SQL types of columns. The type of a NULL without a type is ""."""
    return [{"name": c.name, "type": c.type.sql() if c.type is not None else ""} for c in columns]


def direct_document(result: DirectResult, began: float) -> dict[str, Any]:
    """A whole answer to a query, as the pieces of `api.rest.streams` are together."""
    rows = json_rows(result.rows, result.columns)
    columns = column_documents(result.columns)
    return {"columns": columns, "rows": rows, **tail_document(result, began)}


def tail_document(result: Answered, began: float) -> dict[str, Any]:
    """The members that follow the rows of an answer. `began` is a time of `metrics.now_s`."""
    reads, ranges = result.reads, result.ranges
    return {
        "snapshot": result.snapshot,
        "served_by": list(result.served_by),
        "reads": None if reads is None else [[r.layout, r.key.hex(), r.ts] for r in reads],
        **({} if ranges is None else {"ranges": [*map(_range_document, dict.fromkeys(ranges))]}),
        "elapsed_ms": round((now_s() - began) * 1000, 3),
        **({"drawn": dict(result.drawn)} if result.drawn else {}),
        **({} if result.tentative is None else {"tentative": asdict(result.tentative)}),
    }


def _range_document(read: ReadRange) -> list[Any]:
    end = None if read.end is None else read.end.hex()
    return [read.table, read.start.hex(), end, read.rows, read.at]


def explanation_document(explanation: Explanation, shown: Shown) -> dict[str, Any]:
    served_by = dict.fromkeys(step.layout for step in explanation.steps)
    return explanation.json(shown) | {"served_by": list(served_by)}


# ---------------------------------------------------------------- transactions


def transaction_document(
    catalog: Catalog, result: TransactionResult, sqls: Sequence[str]
) -> dict[str, Any]:
    """The answer to a transaction. `sqls`: the texts of its statements, for their command tags; a
    statement whose text is not known has none."""
    statements = [_statement_document(statement) for statement in result.statements]
    for statement, sql in zip(statements, sqls, strict=False):
        statement["tag"] = command_tag(sql, statement["affected"], len(statement["rows"]))
    document: dict[str, Any] = {
        "transaction_id": result.transaction_id,
        "commit_ts": result.commit_ts,
        "bookmark": result.commit_ts,
        "statements": statements,
        "affected": dict(result.affected),
        "timings_ms": _timings_document(result.timings),
        "applied": result.applied,
    }
    if result.drawn:
        document["drawn"] = dict(result.drawn)
    if result.replay is not None:
        document["replay"] = result.replay
    if result.mutations:
        document["mutations"] = [_mutation_document(catalog, m) for m in result.mutations]
    return document


def _timings_document(timings: Timings) -> dict[str, float]:
    return {
        "plan": round(timings.plan_ms, 3),
        "lock": round(timings.lock_ms, 3),
        "compute": round(timings.compute_ms, 3),
        "log": round(timings.log_ms, 3),
        "apply": round(timings.apply_ms, 3),
    }


def _statement_document(statement: StatementResult) -> dict[str, Any]:
    named = zip(statement.columns, statement.types, strict=True)
    return {
        "affected": statement.affected,
        "columns": [{"name": name, "type": type_} for name, type_ in named],
        "rows": with_shortest_reals(
            [tuple(map(json_value, row)) for row in statement.rows], statement.types
        ),
    }


def _mutation_document(catalog: Catalog, mutation: Mutation) -> dict[str, Any]:
    layout = catalog.layout(mutation.layout)
    types = [column.type.sql() for column in layout.columns]

    def named(row: Row | None) -> dict[str, Any] | None:
        if row is None:
            return None
        (shown,) = with_shortest_reals([tuple(map(json_value, row))], types)
        return dict(zip(layout.column_names, shown, strict=True))

    old, new = named(mutation.old), named(mutation.new)
    known = new or old or {}
    key = {part.column: known[part.column] for part in layout.key}
    return {"layout": mutation.layout, "key": key, "old": old, "new": new}


# ---------------------------------------------------------------- schema


def plan_document(planned: PlannedSchema) -> dict[str, Any]:
    selection, declared = planned.plan, [asdict(row) for row in planned.declared()]
    return {
        "plan_id": planned.plan_id,
        "base_version": planned.base_version,
        "text": _rewritten_text(planned) + selection.text() + _declared_text(declared),
        "plan": selection.json(),
        "changes": [
            asdict(row)
            for row in [
                *planned.changes.rows(),
                *planned.commented,
                *planned.rewritten(),
                *_rebuilt(planned),
            ]
        ],
        "declared_views": declared,
        "mermaid": selection.mermaid(),
        "svg": selection.svg(),
    }


def _rewritten_text(planned: PlannedSchema) -> str:
    """The part of a plan's text about relations whose rows are written again."""
    lines = [f"  {row.name}: {row.detail}" for row in planned.rewritten()]
    return "\n".join(["all rows are written again:", *lines, "", ""]) if lines else ""


def _declared_text(rows: list[dict[str, str]]) -> str:
    """The part of a plan's text about declared views."""
    lines = [f"  {row['action']} {row['name']}: {row['detail']}" for row in rows]
    return "\n".join(["", "declared views:", *lines]) if rows else ""


def _rebuilt(planned: PlannedSchema) -> list[DiffRow]:
    why = "rebuilt: what it reads has changed"
    added = {view.name for view in planned.changes.added_views}
    names = (name for name in planned.rebuilt if name not in added)
    return [DiffRow("rebuild", "view", name, why) for name in names]


def schema_document(db: Database, catalog: Catalog) -> dict[str, Any]:
    """The catalog in force, restricted to `catalog`, its visible part."""
    spaces = catalog.schema.spaces
    text = render_comments(catalog.comments, spaces)
    return {
        "version": catalog.version,
        "ddl": render_ddl(catalog.schema),
        **({"comments": text} if text else {}),
        "schemas": [PUBLIC, *spaces],
        "relations": [relation_document(catalog, r) for r in catalog.schema.relations],
        "trees": trees_document(catalog),
        "views": [
            *(view_document(db, catalog, name) for name in catalog.view),
            *(_deferred_document(catalog, name) for name in catalog.deferred_view),
            *(immediate_view_document(db, name) for name in catalog.transactional_view),
        ],
        "plain_views": [_plain_document(catalog, view) for view in catalog.plain],
        "sequences": [
            sequence_document(sequence)
            | comment_document(catalog, Commented.SEQUENCE, sequence.name)
            for sequence in catalog.schema.sequences
        ],
        "types": [
            {"name": each.full} | comment_document(catalog, Commented.TYPE, each.full)
            for each in catalog.schema.enumerations
        ],
        "domains": [domain_declared(catalog, each) for each in catalog.schema.domains],
        "indexes": [index_document(catalog, index) for index in catalog.indexes],
        "workload": [{"name": s.name, "sql": s.sql, "weight": s.weight} for s in catalog.workload],
        "method": catalog.method,
        "budget": catalog.budget,
        "aggregates": catalog.aggregates,
    }


def view_document(db: Database, shown: Catalog, name: str) -> dict[str, Any]:
    """A view, its indexes in the catalog `shown`, and the progress of its build. Raises
    KeyError."""
    catalog = db.catalog
    view, layout = catalog.view[name], catalog.layout(name)
    return {
        "name": name,
        "path": list(view.path),
        "key": [part.column for part in layout.key],
        "columns": [
            {"name": c.name, "type": c.type.sql(), "relation": v.relation, "column": v.column}
            for c, v in zip(layout.columns, view.columns, strict=True)
            if not c.hidden
        ],
        "state": catalog.state[name].value,
        "indexes": indexes_on(shown, name),
        "rows": db.keeper.counts().get(name, 0),
        "progress": _progress_document(db, name),
        "deferred": None,
        "immediate": None,
    }


def immediate_view_document(db: Database, name: str) -> dict[str, Any]:
    """An immediate view: its columns, its SELECT and how it is maintained, and the progress of its
    build. Raises KeyError."""
    catalog = db.catalog
    view = catalog.transactional_view[name]
    program = compile_transactional(view, catalog) if catalog.maintained(name) else None
    return _declared_document(catalog, view) | {
        "progress": _progress_document(db, name),
        "immediate": {
            "sql": view.declared.sql,
            "program": [] if program is None else list(program.explain()),
            "chosen": name in catalog.immediate_view and catalog.immediate_view[name].chosen,
        },
    }


async def deferred_view_document(db: Database, name: str, *, program: bool) -> dict[str, Any]:
    """A deferred view: its columns, its freshness, and, if asked for, the `program` that maintains
    it. Raises KeyError."""
    catalog, document = db.catalog, _deferred_document(db.catalog, name)
    groups = {group["name"]: group for group in await group_documents(db)}
    fresh = groups[document["deferred"]["group"]]
    shown = {"name", "views", "readable"}
    fresh = {key: value for key, value in fresh.items() if key not in shown}
    lines = None
    if program:
        view = catalog.deferred_view[name]
        lines = list(explained(view, program_of(catalog, name), catalog))
    return document | {"deferred": document["deferred"] | fresh | {"program": lines}}


def _deferred_document(catalog: Catalog, name: str) -> dict[str, Any]:
    """The declaration and columns of a deferred view."""
    view = catalog.deferred_view[name]
    return _declared_document(catalog, view) | {
        "deferred": {
            "sql": view.declared.sql,
            "refresh": view.declared.refresh.value,
            "group": view.declared.group,
            "states": [state.name for state in view.states],
        },
    }


def _declared_document(catalog: Catalog, view: DeferredView | TransactionalView) -> dict[str, Any]:
    return {
        "name": view.name,
        "path": list(view.relations),
        "key": [part.column for part in view.key],
        "columns": [
            {"name": c.name, "type": c.type.sql(), "relation": "", "column": ""}
            | comment_document(catalog, Commented.COLUMN, view.name, c.name)
            for c in view.columns
        ],
        "state": catalog.state[view.name].value,
        "indexes": indexes_on(catalog, view.name),
        "rows": None,
        "progress": None,
        "deferred": None,
        "immediate": None,
        **comment_document(catalog, Commented.MATERIALIZED_VIEW, view.name),
    }


def _plain_document(catalog: Catalog, view: PlainView) -> dict[str, Any]:
    return {
        "name": view.name,
        "sql": view.declared.sql,
        "sources": list(view.sources),
        "columns": [
            {"name": c.name, "type": c.type.sql()}
            | comment_document(catalog, Commented.COLUMN, view.name, c.name)
            for c in view.columns
        ],
        **comment_document(catalog, Commented.VIEW, view.name),
    }


def _progress_document(db: Database, name: str) -> dict[str, Any] | None:
    build = db.keeper.builds.get(name)
    if build is None:
        return None
    return {
        "rows": build.rows,
        "total": build.total,
        "finished": build.finished,
        "error": build.error,
        "elsewhere": build.external,
        "scanned": build.scanned,
    }


def build_document(db: Database, name: str) -> dict[str, Any]:
    """A view or index, and the progress of its external build. Raises KeyError."""
    catalog, build = db.catalog, db.keeper.builds.get(name)
    relation = scanned_relation(catalog, name)
    layout = catalog.layout(name)
    return {
        "name": name,
        "table": layout.table,
        "source": layout.source,
        "relation": relation,
        "whole": name in catalog.immediate_view,
        "state": catalog.state[name].value,
        "missing": _ranges(db.keeper.missing(name)),
        "scanned": 0 if build is None else build.scanned,
        "total": catalog.row_count.get(relation),
    }


def load_document(db: Database) -> dict[str, Any]:
    """The initial load under way. Raises Unavailable when another node leads."""
    known, load = db.initial_loads.finished(), db.catalog.load
    if load is None:
        return {"load": None}
    return {
        "load": {
            "relations": load.relations,
            "identity": load.identity,
            "number": load.number,
            "missing": {name: _ranges(done.missing) for name, done in known.items()},
            "rows": {name: done.rows for name, done in known.items()},
        }
    }


def _ranges(spans: Iterable[Span]) -> list[tuple[str, str | None]]:
    return [(start.hex(), None if end is None else end.hex()) for start, end in spans]


# ---------------------------------------------------------------- upkeep


def verify_document(report: VerifyReport) -> dict[str, Any]:
    return {
        "snapshot": report.snapshot,
        "differences": report.differences,
        "checked": [
            {
                "name": item.name,
                "kind": item.kind,
                "rows": item.rows,
                "missing": item.missing,
                "extra": item.extra,
                "different": item.different,
                "misplaced": item.misplaced,
                "repaired": item.repaired,
                "offending": list(item.offending),
            }
            for item in report.checked
        ],
    }


def changes_document(changes: Changes) -> dict[str, Any]:
    return {
        "after": changes.after,
        "upto": changes.upto,
        "catalog": encode_catalog(changes.catalog).decode(),
        "begun": changes.begun,
        "loaded": changes.loaded,
        "source": msgspec.to_builtins(changes.source),
        "segments": msgspec.to_builtins(changes.segments),
    }


async def group_documents(
    db: Database, may_read: Callable[[str], bool] = lambda _: True
) -> list[dict[str, Any]]:
    """All groups with a view that the client may read, with those views alone. Raises
    Unavailable."""
    groups = await db.deferred.status()
    found = [_group_document(group, await db.live.upkeep(group)) for group in groups]
    shown = [
        doc | {which: [*filter(may_read, doc[which])] for which in ("views", "readable")}
        for doc in found
    ]
    return [document for document in shown if document["views"]]


def _group_document(group: GroupStatus, upkeep: Upkeep) -> dict[str, Any]:
    batch, last, problem = group.state.batch, group.state.last, group.state.problem
    return {
        "name": group.name,
        "views": list(group.views),
        "readable": list(group.readable),
        "interval_s": group.interval_s,
        "as_of": group.as_of,
        "lag_s": group.lag_s,
        "under_way": None if batch is None else batch.upto,
        "last": None if last is None else msgspec.to_builtins(last),
        "problem": (
            None if problem is None else {"message": problem.message, "cure": problem.cure}
        ),
        "left": upkeep.left or None,
        "node": upkeep.node or None,
        "commit_lag": None if upkeep.lags is None else _lags_document(upkeep.lags),
    }


def _lags_document(lags: Lags) -> dict[str, Any]:
    """JSON has no infinity: null is a time above all bounds."""
    within = {name: lags.within_s(share) for name, share in (("p50_s", 0.5), ("p99_s", 0.99))}
    return {"batches": lags.batches} | {
        name: bound if math.isfinite(bound) else None for name, bound in within.items()
    }


def refreshed_document(db: Database, group: str, state: GroupState) -> dict[str, Any]:
    """The group's state after a batch that a node has done."""
    return {
        "group": group,
        "as_of": state.as_of,
        "views": list(named(db.catalog, state.views)),
        "last": msgspec.to_builtins(state.last),
    }


def batch_document(batch: DeferredBatch) -> dict[str, Any]:
    work = batch.work
    return {
        "group": work.group,
        "as_of": work.as_of,
        "upto": work.upto,
        "refreshed": list(work.refreshed),
        "built": list(work.built),
        "usable": sorted(work.usable),
        "export": export_document(batch.export),
        "changes": changes_document(batch.changes),
    }


def export_document(export: Export) -> dict[str, Any]:
    return {
        "name": export.name,
        "snapshot": export.snapshot,
        "catalog": encode_catalog(export.catalog).decode(),
        "source": msgspec.to_builtins(export.source),
        "until_ms": export.until_ms,
    }
