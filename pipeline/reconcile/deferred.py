"""Deferred views in a reconciliation: each is compared as of its group's moment.

What should be stored then is what a build would put: the rows that the view's program makes of all
rows of its relations, with what it keeps for itself; or, of a view that batches answer anew, what
its SELECT answers. No other view is read for it. These rows meet what is stored as those of indexes
do (`scans`). A damaged view is repaired by making it anew in a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyspark import RDD, SparkContext

from hornbeam.transport import Transport, persistently
from pipeline import export as exports
from pipeline.export import Export
from pipeline.recomputing import answered
from pipeline.refresh import made_anew, program_of, refresh
from schema.errors import NotFound, Unavailable
from schema.model import Refresh
from storage.ports import Put

MOMENTS = 5
"""So often a batch may end just when an export was asked for."""
BATCHES = 3
"""The one that is under way may come before the one that makes views anew."""

Rows = RDD[tuple[str, Put]]


class Group(NamedTuple):
    name: str
    views: tuple[str, ...]
    """Those that are compared."""


def groups(transport: Transport, names: Collection[str] | None) -> list[Group]:
    """With the readable ones of deferred views `names`; None: with all that are readable. Raises
    NotFound for one of `names` that is not."""
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
        raise NotFound(f"There is no readable deferred view {', '.join(missing)}.")
    return [group for group in found if group.views]


def _listed(transport: Transport) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = persistently(lambda: transport.json("GET", "/v1/groups"))
    return listed


@contextmanager
def moment(transport: Transport, group: Group) -> Iterator[Export]:
    """Everything as of where the views of a group are. Raises Unavailable when one of them is not
    there any more."""
    for _ in range(MOMENTS):
        export = exports.begin(transport, view=group.views[0])
        try:
            if _is_as_of(transport, group, export.snapshot):
                yield export
                return
        finally:
            exports.end(transport, export)
    raise Unavailable(
        f"Group {group.name} is refreshed, or its views are made anew, all the time.",
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
    """What should be stored of deferred views as of an export, by layout."""
    catalog = export.codecs().catalog
    views = [catalog.deferred_view[name] for name in names]
    anew = [view for view in views if view.declared.refresh is Refresh.RECOMPUTE]
    kept = [view.name for view in views if view not in anew]
    answers = [
        (view.name, Put(*row))
        for view in anew
        for row in asyncio.run(answered(export, program_of(catalog, view))).items()
    ]
    with made_anew(context, export, kept) as made:
        yield made.union(context.parallelize(answers))


def make_anew(context: SparkContext, transport: Transport, url: str, group: Group) -> None:
    """Have the views of a group made anew, and do it. `url` is that of a node, for executors."""
    body = {"views": list(group.views)}
    persistently(lambda: transport.json("POST", "/v1/groups/rebuild", body))
    for _ in range(BATCHES):
        refresh(context, transport, url, group.name)
        if any(set(group.views) <= set(listed["readable"]) for listed in _listed(transport)):
            break
