"""The documents of statements and transactions that run at a node, and their models for OpenAPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from hornbeam_server.api.rest.response_models import Answer, Cell
from hornbeam_server.api.rest.serializers import json_value
from hornbeam_server.node.running_transactions import RunningTransaction, ShownLock
from hornbeam_server.node.statement_statistics import StatementCount, StatementStatistics

Order = Literal["time", "calls", "mean", "rows_read", "failed"]
_ORDERS: dict[Order, Callable[[StatementCount], float]] = {
    "time": lambda count: count.seconds,
    "calls": lambda count: count.calls,
    "mean": lambda count: count.seconds / count.calls if count.calls else 0.0,
    "rows_read": lambda count: count.rows_read,
    "failed": lambda count: count.failed,
}


class Statement(Answer):
    sql: str = Field(
        examples=["SELECT * FROM orders WHERE o_id = ?"],
        description="With `?` for each literal; the first 10 000 characters.",
    )
    kind: Literal["read", "write"]
    calls: int = Field(description="That have ended, also with an error.")
    failed: int = Field(description="That have ended with an error.")
    total_ms: float
    mean_ms: float
    max_ms: float
    rows: int = Field(description="Of all results, or written by all calls.")
    rows_read: int | None = Field(description="From the store, by all calls; null for writes.")
    served_by: list[str] = Field(
        description="The relations, views and indexes that the last call has read or changed."
    )
    first_ms: int = Field(description="The time of the first call.")
    last_ms: int = Field(description="The time of the last call.")


class Statistics(Answer):
    since_ms: int = Field(description="The counts begin at this time.")
    texts: int = Field(description="The number of statements that are counted.")
    most: int = Field(description="`max_statement_texts`: the counts that matter least go first.")
    statements: list[Statement]


class StatisticsReset(Answer):
    since_ms: int


class Lock(Answer):
    kind: str = Field(
        examples=["root"],
        description="root, row, unique (a value of a unique index), request (an idempotency key)"
        " or slow lane (transactions that others have made begin again too often).",
    )
    name: str = Field(description="Of the relation or index; the id of a request.")
    key: list[Cell] | None = Field(description="Of the row; null for other kinds.")


class RunningTransactionAnswer(Answer):
    transaction_id: str
    owner: str = Field(description="The id of the API key; empty without authentication.")
    began_ms: int
    age_ms: int
    attempt: int = Field(description="From 1: the transaction begins again because of others.")
    state: Literal["runs", "waits", "commits"]
    waits_for: Lock | None
    at: str | None = Field(description="The node that grants this lock, if it is another one.")
    locks: int = Field(description="That this node has granted to it.")
    statements: list[str] = Field(description="The first of them, without their parameters.")
    more: int = Field(description="Statements that are not shown.")


def statistics_document(
    statistics: StatementStatistics, order: Order, limit: int
) -> dict[str, Any]:
    """At most `limit` statements, the largest first."""
    counts = statistics.counts()
    shown = sorted(counts, key=_ORDERS[order], reverse=True)[:limit]
    return {
        "since_ms": statistics.since_ms,
        "texts": len(counts),
        "most": statistics.most,
        "statements": [
            _statement(count) | {"last_ms": statistics.last_ms(count)} for count in shown
        ],
    }


def _statement(count: StatementCount) -> dict[str, Any]:
    return {
        "sql": count.sql,
        "kind": "write" if count.writes else "read",
        "calls": count.calls,
        "failed": count.failed,
        "total_ms": round(count.seconds * 1000, 3),
        "mean_ms": round(count.seconds * 1000 / max(count.calls, 1), 3),
        "max_ms": round(count.most_s * 1000, 3),
        "rows": count.rows,
        "rows_read": None if count.writes else count.rows_read,
        "served_by": list(count.served_by),
        "first_ms": count.first_ms,
    }


def running_document(running: RunningTransaction, now_ms: int) -> dict[str, Any]:
    return {
        "transaction_id": running.transaction_id,
        "owner": running.owner,
        "began_ms": running.began_ms,
        "age_ms": max(now_ms - running.began_ms, 0),
        "attempt": running.number,
        "state": running.state,
        "waits_for": None if running.lock is None else _lock(running.lock),
        "at": running.node or None,
        "locks": running.held,
        "statements": list(running.statements),
        "more": running.more,
    }


def _lock(lock: ShownLock) -> dict[str, Any]:
    key = None if lock.key is None else list(map(json_value, lock.key))
    return {"kind": lock.kind, "name": lock.name, "key": key}
