"""The parts of MERGE: the pairs that its search finds, and the rows that it deletes and inserts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from hornbeam_server.query.engine import QueryStream
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.sizes import Budget
from hornbeam_server.schema.sqltext import shown
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.schema.types import Row
from hornbeam_server.txlayer.statements.requests import Parameters
from hornbeam_server.txlayer.statements.write_plans import MergeInsert, MergePlan
from hornbeam_server.txlayer.transactions.searches import Searches
from hornbeam_server.txlayer.transactions.value_queries import named_parameters
from hornbeam_server.txlayer.transactions.workspace import Key, Workspace, require_few


@dataclass(frozen=True, slots=True)
class Matched:
    """The pairs of one action: the keys of the rows of the target (for INSERT, NULLs), and the
    parameters for each."""

    keys: list[Key] = field(default_factory=list)
    parameters: list[Parameters] = field(default_factory=list)


async def matched(
    plan: MergePlan, stream: QueryStream, parameters: Parameters, budget: Budget
) -> list[Matched]:
    """The pairs of each action. Raises LimitExceeded, and SqlError if two pairs write one row."""
    width = len(plan.relation.primary_key)
    found = [Matched() for _ in plan.actions]
    named = named_parameters(parameters)
    written: set[Key] = set()
    count = 0
    async with aclosing(stream.batches()) as batches:
        async for batch in batches:
            for some in chunks([row for row in batch if row[width] is not None]):
                for row in budget.taking(some):
                    _add(plan, found, named, row, written)
                count += len(some)
                require_few(plan.relation.name, count)
                await turn(some)
    return found


def _add(
    plan: MergePlan, found: Sequence[Matched], named: dict[Any, Any], row: Row, written: set[Key]
) -> None:
    width = len(plan.relation.primary_key)
    key, action, values = row[:width], row[width], row[width + 1 :]
    assert isinstance(action, int), "the search numbers the actions"
    if not isinstance(plan.actions[action], MergeInsert):
        if key in written:
            raise _matched_twice(plan, key)
        written.add(key)
    found[action].keys.append(key)
    found[action].parameters.append({**named, **dict(zip(plan.names, values, strict=True))})


def _matched_twice(plan: MergePlan, key: Key) -> SqlError:
    relation = plan.relation
    return SqlError(
        f"MERGE would write a row of {relation.name} a second time:"
        f" {shown(relation.primary_key, key)}.",
        cure="Let at most one row of the source match it, for example by an aggregate or DISTINCT"
        " ON in USING.",
    )


async def rows_to_delete(
    relation: Relation, keys: Sequence[Key], workspace: Workspace
) -> list[Row]:
    """The rows to delete, which the updates of the MERGE may have changed by ON UPDATE."""
    rows = [row for row in await workspace.rows(relation.name, keys) if row is not None]
    if len(rows) < len(keys):
        raise SqlError(
            f"MERGE deletes a row of {relation.name} whose primary key it changes by ON UPDATE.",
            cure="Send DELETE and UPDATE as two statements of one transaction.",
        )
    return rows


async def lock_new_rows(
    relation: Relation, rows: Sequence[Row], workspace: Workspace, searches: Searches
) -> None:
    """Lock rows that a MERGE inserts. Raises TransactionAborted if a row with one of their keys was
    inserted after the search, for it may match now."""
    codec = workspace.state.codecs(relation.name)
    for some in chunks(rows):
        await workspace.lock_roots(relation.name, some)
        await workspace.lock_existence(relation.name, [codec.key(row) for row in some])
        await searches.require_unchanged(relation.name, [codec.key_values(row) for row in some])
        await turn(some)
