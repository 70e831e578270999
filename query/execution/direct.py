"""Direct execution: a short read without suspension (`storage.direct`), then filter, order, limit.

A native plan (`loops.py`) is run directly if it reads nothing, or one source by a key, a prefix or
a range, or whole if it is expected to be short. A run that finds too many rows gives up, and the
native loops begin again.
"""

from __future__ import annotations

from hornbeam_server.query.execution.lookups import dangling, source_key
from hornbeam_server.query.execution.loops import NativePlan
from hornbeam_server.query.expressions import sort_rows
from hornbeam_server.query.optimizer.access_paths import Access, Parameters, Reach
from hornbeam_server.query.optimizer.key_ranges import keys, ranges
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.direct import MOST_ROWS, DirectSnapshot


def is_direct(plan: NativePlan) -> bool:
    """May `plan` be run directly? Its layouts must not be those of immediate views."""
    if plan.lookups or plan.answers or plan.grouping is not None or plan.first_row_only:
        return False
    access = plan.first
    if access is None:
        return True
    if access.reach is Reach.POINT:
        return True
    if not access.single:
        return False
    ends_early = plan.limit is not None and plan.read_limit(1) is not None
    return ends_early or access.reach is not Reach.SCAN or access.rows <= MOST_ROWS


class Attempts:
    """Which runs of one plan are tried directly.

    How many rows a prefix or a range has depends on its values, so an estimate would be wrong for
    most. A direct run that gives up has read `MOST_ROWS` in vain; the more of them give up, the
    fewer are tried, down to one in `MOST_LEFT_OUT`.
    """

    MOST_LEFT_OUT = 63

    def __init__(self) -> None:
        self._pause = self._left_out = 0

    def begin(self) -> bool:
        """Is the next run to be tried directly?"""
        if self._left_out:
            self._left_out -= 1
            return False
        return True

    def end(self, *, short: bool) -> None:
        """A direct run has ended: with its rows, or given up."""
        self._pause = self._pause // 2 if short else min(2 * self._pause + 1, self.MOST_LEFT_OUT)
        self._left_out = 0 if short else self._pause


def rows_directly(
    plan: NativePlan, reader: DirectSnapshot, parameters: Parameters
) -> list[Row] | None:
    """The result of `plan`, for which `is_direct` holds. None: there are too many rows. Raises the
    errors of the loops."""
    begin, end = plan.bounds(parameters)
    if begin == end:
        return []
    if plan.first is None:
        return plan.project([()], parameters)
    rows = _rows(plan.first, reader, parameters, plan.read_limit(end))
    if rows is None or reader.is_full:
        return None
    rows = plan.matching(rows, parameters)
    if plan.delivered < len(plan.order):
        rows = sort_rows(rows, plan.order, parameters)
    if begin or end is not None:
        rows = rows[begin:end]
    return plan.project(rows, parameters)


def _rows(
    access: Access, reader: DirectSnapshot, parameters: Parameters, limit: int | None
) -> list[Row] | None:
    """The rows of the path's source. None if they are too many."""
    if access.reach is Reach.POINT:
        wanted = keys(access, parameters)
        if len(wanted) > MOST_ROWS:
            return None
        found = [reader.get(access.layout.name, key) for key in wanted]
        entries = [row for row in found if row is not None][:limit]
    else:
        entries = []
        for key_range in ranges(access, parameters):
            left = None if limit is None else limit - len(entries)
            if left == 0:
                break
            some = reader.scan(access.layout.name, key_range, reverse=access.reverse, limit=left)
            if some is None:
                return None
            entries += some
    return entries if access.covering else _resolved(access, reader, entries)


def _resolved(access: Access, reader: DirectSnapshot, entries: list[Row]) -> list[Row]:
    """The source's rows that index entries point to. Raises Corruption if one is missing."""
    key_of = source_key(access)
    rows = []
    for entry in entries:
        row = reader.get(access.source.name, key_of(entry))
        if row is None:
            raise dangling(access)
        rows.append(row)
    return rows
