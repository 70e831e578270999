"""The choice between the two executors of stages: DuckDB, and loops over rows.

Both give the same results. DuckDB needs milliseconds for a stage, and then little for each row; the
loops need little for a stage, and more for each row. The loops compare rows by their values, so
only DuckDB takes intervals: equal ones may have other parts.
"""

from __future__ import annotations

from collections.abc import Mapping

from hornbeam_server.maintain.deltas.relations import Fields, has_spans
from hornbeam_server.maintain.deltas.rows.inputs import row_input
from hornbeam_server.maintain.deltas.rows.stages import row_stage
from hornbeam_server.maintain.deltas.stages import (
    Input,
    JoinStage,
    Stage,
    StageResult,
    ViewStage,
)
from hornbeam_server.maintain.deltas.zsets import ZSet
from hornbeam_server.storage.snapshot import RowReader

FEW = 1_000
"""Up to so many rows, an input is worked off row by row. From about here on, DuckDB needs less
processor time (`make bench`, section deltas)."""


PAIRS = 100
"""A join without an equality compares each changed row with all rows that are looked up. Its input
is worked off row by row if it has so many times fewer rows."""


def project(part: Input, changes: ZSet, few: int = FEW) -> ZSet:
    """The source's changes as rows of a stage's input; `changes` may be any part of them."""
    if not changes:
        return ZSet(part.output)
    if len(changes) > _most(part.output, few):
        return part.project(changes)
    return ZSet(part.output, rows=row_input(part).rows(changes))


def _most(fields: Fields, few: int) -> int:
    """The maximum of rows of these fields for the loops."""
    return 0 if any(map(has_spans, fields)) else few


def run_inputs(stage: Stage, zsets: Mapping[str | int, ZSet], few: int = FEW) -> ZSet:
    """A stage's whole input, from the changes of its sources."""
    parts = [
        project(part, zsets[part.source], few) for part in stage.inputs if part.source in zsets
    ]
    return ZSet.concat(stage.columns, parts)


async def run(stage: Stage, zset: ZSet, old: RowReader, few: int = FEW) -> StageResult:
    """Run a stage: `Stage.run`. Most stages of a batch of few changes have no input."""
    if not zset and isinstance(stage, JoinStage | ViewStage):
        return StageResult(ZSet(stage.output), [])
    if isinstance(stage, JoinStage) and not stage.join.keys and not stage.join.one_right:
        few //= PAIRS
    if len(zset) > _most(stage.columns, few):
        return await stage.run(zset, old)
    return await row_stage(stage).run(zset.rows, old)
