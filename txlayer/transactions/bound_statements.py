"""What the parts of one statement hand to each other while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hornbeam_server.schema.types import Row
from hornbeam_server.txlayer.statements.requests import Parameters, Statement
from hornbeam_server.txlayer.statements.write_plans import Conflict
from hornbeam_server.txlayer.transactions.value_queries import ValueQueries


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement with the values of its parameters. `by_duckdb`: DuckDB evaluates some of its
    expressions."""

    statement: Statement
    parameters: Parameters
    by_duckdb: bool


@dataclass(frozen=True, slots=True)
class Upsert:
    """ON CONFLICT of a bound statement."""

    conflict: Conflict
    bound: Bound
    values: ValueQueries


@dataclass(frozen=True, slots=True)
class Written:
    """The rows that a statement has written, and what its RETURNING needs: the parameters for each
    row, and the value queries of the statement."""

    rows: list[Row]
    parameters: Sequence[Parameters]
    values: ValueQueries
