"""Deferred views in a reconciliation: each is compared as of its group's snapshot.

The expected rows are those that a build would put: the view's program computes the view and its
state from all rows of its relations. For a view that batches recompute, they are the result of its
SELECT. No other view is read for them. They are compared with the stored rows in the same way as
those of indexes (`scans`). A damaged view is repaired by rebuilding it in a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyspark import RDD, SparkContext

from hornbeam.transport import Transport, persistently
from hornbeam_server.maintain.deltas.catalog_programs import program_of
from hornbeam_server.pipeline.refresh.driver import rebuilt, refresh
from hornbeam_server.pipeline.refresh.recompute import answered
from hornbeam_server.pipeline.spark import export as exports
from hornbeam_server.pipeline.spark.export import Export
from hornbeam_server.schema.errors import NotFound, Unavailable
from hornbeam_server.schema.model import Refresh
from hornbeam_server.storage.ports import Put

ATTEMPTS = 5
"""Attempts to get an export. An attempt fails when a batch ends at the same time."""
BATCHES = 3
"""Maximum number of batches until the views are rebuilt: the batch under way may come first."""

Rows = RDD[tuple[str, Put]]


class Group(NamedTuple):
    name: str
    views: tuple[str, ...]
    """The views that are compared."""


def groups(transport: Transport, names: Collection[str] | None) -> list[Group]:
    """Groups with their views in `names` (None: with all readable views). Raises NotFound if one of
    `names` is no readable deferred view."""
    listed = _listed(transport)
    found = [
        Group(
            group["name"],
            tuple(name for name in group["readable"] if names is None or name in names),
        )
        for group in listed
    ]
    readable = {name for group in found for name in group.views}
    if missing := [name for name in names or () if name not in readable]:
        raise NotFound(
            f"There is no readable deferred view {', '.join(missing)}.",
            cure="hornbeam view list shows the views; hornbeam refresh builds deferred ones.",
        )
    return [group for group in found if group.views]


def _listed(transport: Transport) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = persistently(lambda: transport.json("GET", "/v1/groups"))
    return listed


@contextmanager
def export_as_of(transport: Transport, group: Group) -> Iterator[Export]:
    """An export at the snapshot of a group's views. Raises Unavailable if a view stays unreadable,
    or the snapshot changes at every attempt."""
    for _ in range(ATTEMPTS):
        export = exports.begin(transport, view=group.views[0])
        try:
            if _is_as_of(transport, group, export.snapshot):
                yield export
                return
        finally:
            exports.end(transport, export)
    raise Unavailable(
        f"Group {group.name} is refreshed, or its views are rebuilt, all the time.",
        cure="Try again.",
    )


def _is_as_of(transport: Transport, group: Group, snapshot: int) -> bool:
    return any(
        listed["name"] == group.name
        and listed["as_of"] == snapshot
        and set(group.views) <= set(listed["readable"])
        for listed in _listed(transport)
    )


@contextmanager
def expected(context: SparkContext, export: Export, names: Sequence[str]) -> Iterator[Rows]:
    """The rows that should be stored for deferred views as of an export, with their layouts."""
    catalog = export.codecs().catalog
    views = [catalog.deferred_view[name] for name in names]
    recomputed = [view for view in views if view.declared.refresh is Refresh.RECOMPUTE]
    kept = [view.name for view in views if view not in recomputed]
    answers = [
        (view.name, Put(*row))
        for view in recomputed
        for row in asyncio.run(answered(export, program_of(catalog, view))).items()
    ]
    with rebuilt(context, export, kept) as made:
        yield made.union(context.parallelize(answers))


def rebuild(context: SparkContext, transport: Transport, url: str, group: Group) -> None:
    """Request a rebuild of a group's views, and run it. `url` is that of a node, for executors."""
    body = {"views": list(group.views)}
    persistently(lambda: transport.json("POST", "/v1/groups/rebuild", body))
    for _ in range(BATCHES):
        refresh(context, transport, url, group.name)
        if any(set(group.views) <= set(listed["readable"]) for listed in _listed(transport)):
            break
