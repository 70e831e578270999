"""A plan on its way into force, in one stage or in two (`schema/stages.py`)."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from functools import partial

from hornbeam_server.node.new_columns import with_values_in_older_rows
from hornbeam_server.node.new_defaults import require_functions
from hornbeam_server.node.schema_plans import PlannedSchema, PlanRequest, in_thread, plan_schema
from hornbeam_server.query.binding.renaming import renamed
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.diff import SchemaDiff
from hornbeam_server.schema.errors import InvalidRequest, StalePlan
from hornbeam_server.schema.renames import renamed_counts
from hornbeam_server.txlayer.ddl.catalog_keeper import CatalogKeeper


@dataclass(frozen=True, slots=True)
class MadePlan:
    """The plan that was made last, and what it was made from."""

    request: PlanRequest
    catalog: Catalog
    counts: tuple[tuple[str, int], ...]
    plan: PlannedSchema

    def answers(
        self, request: PlanRequest, catalog: Catalog, counts: tuple[tuple[str, int], ...]
    ) -> bool:
        """Would the same plan be made again?"""
        same = self.catalog is catalog and self.counts == counts
        return same and self.request == request


class SchemaChange:
    """Plans what was asked again, over the catalog that is then in force, unless `known` is that
    plan. `now` is the time of defaults that are computed once."""

    def __init__(
        self,
        request: PlanRequest,
        plan_id: str,
        *,
        known: MadePlan | None,
        allow_drop: bool,
        keeper: CatalogKeeper,
        engine: QueryEngine,
        now: dt.datetime,
    ) -> None:
        self._request = request
        self._plan_id = plan_id
        self._known = known
        self._allow_drop = allow_drop
        self._keeper = keeper
        self._engine = engine
        self._now = now
        self._staged: tuple[tuple[str, str], ...] = ()
        """What the first of two stages adds (`Catalog.staged`)."""
        self._begun = False
        """Is the first stage in force?"""

    def goes_on(self) -> bool:
        """Is another stage left? It begins then."""
        self._begun = bool(self._staged) and not self._begun
        return self._begun

    async def planned(self, current: Catalog) -> Catalog:
        """The planned catalog. It is planned again when its copies are filled, and may choose other
        views then: the counts of rows have changed by then. Raises StalePlan unless the plan is
        that of the plan's id, InvalidRequest when it drops values that it may not drop, and the
        errors of `plan_schema` and of defaults."""
        request, counts = self._request, tuple(self._keeper.counts().items())
        counted = replace(current, row_counts=counts)
        if self._known is not None and self._known.answers(request, current, counts):
            plan = self._known.plan
        else:
            plan = await in_thread(partial(plan_schema, request, counted))
        self._require_same(plan, current)
        _require_allowed(plan.changes, self._allow_drop)
        if plan.first is not None:
            request = plan.first
            plan = await in_thread(partial(plan_schema, request, counted))
        # The request's row counts are for the choice only; the catalog has the stored counts.
        catalog = replace(plan.catalog, row_counts=renamed_counts(counts, request.renames))
        base = renamed(current, request.renames).schema
        await require_functions(catalog.schema, base, self._now, self._engine)
        catalog = await with_values_in_older_rows(catalog, base, self._now, self._engine)
        if request is not self._request:
            self._staged = catalog.staged
        return replace(catalog, staged=self._staged)

    def _require_same(self, plan: PlannedSchema, current: Catalog) -> None:
        """Raises StalePlan if the plan is not the one that was looked at, or if the first stage is
        undone."""
        if current.copies:
            return
        if self._begun and current.staged != self._staged:
            raise StalePlan(
                "The change was given up by another node; nothing is changed.",
                cure="Plan again, look at the plan, and apply it.",
            )
        if not self._begun and plan.plan_id != self._plan_id:
            raise StalePlan(
                "The plan differs from the one you looked at: the catalog, an input, or what row"
                " counts make best has changed.",
                cure="Plan again, look at it, and apply that plan.",
            )


def _require_allowed(changes: SchemaDiff, allow_drop: bool) -> None:
    """Raises InvalidRequest if values would be dropped without `allow_drop`."""
    relations = [relation.name for relation in changes.dropped_relations]
    columns = [f"{relation}.{column.name}" for relation, column in changes.dropped_columns]
    if (relations or columns) and not allow_drop:
        kinds = " and ".join(
            f"{kind} {', '.join(names)}"
            for kind, names in (("relations", relations), ("columns", columns))
            if names
        )
        raise InvalidRequest(
            f"These would be dropped with all their rows or values: {kinds}.",
            cure="Keep them in the DDL; or say which columns have other names there: renames,"
            " --rename; or say that they may go: allow_drop, --allow-drop.",
        )
