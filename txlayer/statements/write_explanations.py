"""EXPLAIN of INSERT, UPDATE, DELETE and MERGE: how their rows are found. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.explain import (
    Explanation,
    Step,
    Typed,
    parameters_of,
    typed,
    typed_columns,
)
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.trees import unlink
from hornbeam_server.txlayer.statements.write_compiler import compile_write
from hornbeam_server.txlayer.statements.write_parameters import NOW
from hornbeam_server.txlayer.statements.write_plans import (
    BySearch,
    DeletePlan,
    InsertPlan,
    MergePlan,
    RowPlan,
    StepsPlan,
    Subquery,
    TruncatePlan,
    UpdatePlan,
    searches,
)
from hornbeam_server.txlayer.statements.write_steps import has_writing_parts

_WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)


def write_explanation(sql: str, catalog: Catalog, engine: QueryEngine) -> Explanation | None:
    """The explanation of a statement that writes; None for a query. Raises SqlError."""
    if not _writes(sql):
        return None
    plan = compile_write(sql, catalog, engine)
    assert not isinstance(plan, TruncatePlan)
    parts = plan.parts if isinstance(plan, StepsPlan) else (plan,)
    plans = [part for part in parts if not isinstance(part, Subquery)]
    found = [query.prepared.explain() for part in parts for query in searches(part)]
    return Explanation(
        sql=sql,
        rewritten=sql,
        views=_distinct(view for each in found for view in each.views),
        indexes=_distinct(index for each in found for index in each.indexes),
        steps=(
            *(step for each in plans for step in _by_key(each)),
            *(step for each in found for step in each.steps),
        ),
        strategy="; ".join(map(_strategy, plans)),
        duckdb="; ".join(each.duckdb for each in found if each.duckdb),
        reason="; ".join(_distinct(each.reason for each in found if each.reason)),
        notes=_distinct(note for each in found for note in each.notes),
        columns=_columns(plan),
        parameters=tuple(each for each in parameters_of(plan.bound) if each.name != NOW),
    )


def _columns(plan: RowPlan | StepsPlan) -> tuple[Typed, ...]:
    """The columns of RETURNING, or of the query behind a WITH that writes; none without either."""
    last = plan.parts[-1] if isinstance(plan, StepsPlan) else plan
    if isinstance(last, Subquery):
        return typed_columns(last.prepared.columns)
    if last.returning is None:
        return ()
    return tuple(map(typed, last.returning.columns, last.returning.types))


def _writes(sql: str) -> bool:
    tree = parse(sql, sequences=True)
    try:
        return isinstance(tree, _WRITES) or (
            not isinstance(tree, exp.TruncateTable) and has_writing_parts(tree)
        )
    finally:
        unlink(tree)


def _distinct(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _strategy(plan: RowPlan) -> str:
    """What a write does, and how it finds its rows."""
    name = plan.relation.name
    match plan:
        case InsertPlan(query=Subquery() as query):
            return f"insert the rows of a query into {name}: {query.prepared.explain().strategy}"
        case InsertPlan(rows=rows):
            return f"insert {len(rows)} row{'s' if len(rows) != 1 else ''} into {name}"
        case MergePlan(query=query):
            return f"merge the rows of a query into {name}: {query.prepared.explain().strategy}"
        case UpdatePlan(find=find) | DeletePlan(find=find):
            verb = "update" if isinstance(plan, UpdatePlan) else "delete"
            if isinstance(find, BySearch):
                how = find.query.prepared.explain().strategy
                return f"{verb} the rows of {name} that a query finds: {how}"
            return f"{verb} one row of {name} by its key"


def _by_key(plan: RowPlan) -> Iterator[Step]:
    """The read of the row whose key a write names."""
    if isinstance(plan, UpdatePlan | DeletePlan) and not isinstance(plan.find, BySearch):
        yield _row_by_key(plan.relation)


def _row_by_key(relation: Relation) -> Step:
    return Step(
        source=relation.name,
        alias=relation.name,
        layout=relation.name,
        access="row by key of",
        condition=", ".join(f"{column} = …" for column in relation.primary_key),
        covering=True,
        join="",
        order="",
        rows=1,
        assumed=False,
    )
