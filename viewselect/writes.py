"""The cost of the workload's write statements themselves, in row reads.

The upkeep of views is a share of it in the objective (`cost`).
"""

from __future__ import annotations

from hornbeam_server.query.binding.algebra import StatementKind
from hornbeam_server.query.optimizer.access_paths import GET_COST
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.viewselect.pricing import ROUND_COST, WRITE_COST
from hornbeam_server.viewselect.workload import Write

COMMIT_ROUNDS = 2
"""Round trips of a commit: the append to the log, and the put of its rows."""


def own_cost(write: Write, found: float, base: Catalog) -> float:
    """Row reads of one execution of a write without views. `found` is the cost of finding its rows,
    0 for a look-up by key; `base` has the relations and their indexes. Foreign keys whose columns
    change are checked in one round trip; so are those that reference a deleted row."""
    relation = base.schema.relation(write.relation)
    update = write.kind is StatementKind.UPDATE
    layouts = [base.layout(index.name) for index in base.indexes_on(relation.name)]
    changed = sum(not update or not write.columns.isdisjoint(x.column_names) for x in layouts)
    if write.kind is StatementKind.DELETE:
        checks = len(base.schema.children(relation.name))
    else:
        keys = relation.foreign_keys
        checks = sum(not update or not write.columns.isdisjoint(key.columns) for key in keys)
    checked = ROUND_COST + write.rows * checks * GET_COST if checks else 0.0
    put = COMMIT_ROUNDS * ROUND_COST + write.rows * WRITE_COST * (1 + changed)
    return (found or ROUND_COST + GET_COST) + checked + put
