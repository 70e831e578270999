"""Evaluation by DuckDB of scalar expressions that `query.expressions` does not compile.

It is slow (about 1 ms per call, for any number of rows) but has DuckDB's semantics by construction.
An expression may take any time and memory, so a worker process runs it (`DuckSession.evaluate`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.dialect.duckdb_types import from_record_batch
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.dialect.macros import PARAMETER_TYPE
from hornbeam_server.query.parsing.placeholders import number_placeholders, parameter_key
from hornbeam_server.query.workers.messages import Next, Query, Register, Request, Rows
from hornbeam_server.query.workers.processes import Worker
from hornbeam_server.schema.errors import SqlError, TypeMismatch, UnknownName
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.trees import unlink, written
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind, Row, Value
from hornbeam_server.storage.codec.arrow import to_record_batch

_POSITION = "position"
_WORKER: ContextVar[Worker] = ContextVar("worker")
Types = Mapping[int | str, ColumnType | None]
T = TypeVar("T")


def evaluating(worker: Worker, work: Callable[[], T]) -> T:
    """The result of `work`, which may call `evaluate`; `worker` runs these calls."""
    token = _WORKER.set(worker)
    try:
        return work()
    finally:
        _WORKER.reset(token)


def evaluate(
    node: exp.Expr,
    columns: Sequence[Column],
    rows: Sequence[Row],
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    parameter_types: Types | None = None,
) -> list[Value]:
    """The value of `node` for each row, in the rows' order.

    A column named "q.c" is what `q.c` refers to; other columns are found by their bare names.
    Parameters become comparands of `parameter_types` where given; otherwise DuckDB infers the type
    from the value. Raises UnknownName, TypeMismatch (a value does not fit), SqlError,
    MemoryExceeded. Only valid inside `evaluating`.
    """
    if not rows:
        return []
    number_placeholders(node)
    types = dict(parameter_types or {})
    given = {}
    for key in dict.fromkeys(map(parameter_key, node.find_all(exp.Placeholder))):
        given[key] = _comparand(parameters, key, types)
        types[key] = _unrounded(types.get(key), given[key])
    plan = _plan(node, tuple(columns), types)
    values = {name: given[key] for name, key in plan.parameters}
    batch = to_record_batch(
        [Column(_POSITION, ColumnType(Kind.BIGINT)), *plan.columns],
        [(number, *(row[i] for i in plan.positions)) for number, row in enumerate(rows)],
    )
    found = _run(plan.sql, batch, values)
    if len(found) != len(rows):  # functions that return several rows, such as UNLIST
        raise SqlError(
            f"{written(node, NAME)} is not one value for each row.",
            cure="Use an expression that has one value for each row.",
        )
    return found


def _comparand(
    parameters: Sequence[Any] | Mapping[str, Any],
    key: int | str,
    types: Types,
) -> Any:
    try:
        value = parameters[key]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        raise SqlError(
            f"Parameter {key} is missing.", cure="Give one value for each parameter."
        ) from None
    type_ = types.get(key)
    return value if type_ is None else type_.comparand(value)


def _unrounded(type_: ColumnType | None, value: Any) -> ColumnType | None:
    """`type_`, widened so that a cast to it does not round `value`. Raises TypeMismatch if that
    needs too many digits."""
    if type_ is None or not isinstance(value, Decimal):
        return type_
    precision, scale = type_.precision or MAX_DECIMAL_PRECISION, type_.scale or 0
    places = max(scale, -int(value.as_tuple().exponent))
    digits = max(precision - scale, value.adjusted() + 1) + places
    if digits > MAX_DECIMAL_PRECISION:
        raise TypeMismatch(
            f"A value compared with {type_.sql()} has too many digits to be compared exactly.",
            cure="Round the value.",
            type=type_.sql(),
        )
    return replace(type_, precision=digits, scale=places)


class _Plan:
    """SQL for an expression over columns c0, c1, … and parameters $p0, $p1, …"""

    def __init__(self, node: exp.Expr, columns: Sequence[Column], types: Types) -> None:
        self.positions: list[int] = []
        self.parameters: list[tuple[str, int | str]] = []
        self._types = types
        self._names = {column.name: i for i, column in enumerate(columns)}
        tree = node.copy().transform(self._replace)
        self.columns = [
            Column(f"c{i}", columns[position].type) for i, position in enumerate(self.positions)
        ]
        self.sql = f"SELECT {duckdb_sql(tree, ranges=True)} FROM input ORDER BY {_POSITION}"
        unlink(tree)

    def _replace(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            unlink(node)
            return exp.column(f"c{self._slot(node)}")
        if isinstance(node, exp.Placeholder):
            name = f"p{len(self.parameters)}"
            key = parameter_key(node)
            self.parameters.append((name, key))
            type_ = self._types.get(key)
            value = exp.Placeholder(this=name)
            value.meta[PARAMETER_TYPE] = type_
            return value if type_ is None else exp.cast(value, type_.sql(), dialect="duckdb")
        return node

    def _slot(self, node: exp.Column) -> int:
        qualified = f"{node.table}.{node.name}"
        position = self._names.get(qualified, self._names.get(node.name))
        if position is None:
            raise UnknownName(f"There is no column {node.name} here.")
        if position not in self.positions:
            self.positions.append(position)
        return self.positions.index(position)


def _plan(node: exp.Expr, columns: tuple[Column, ...], types: Types) -> _Plan:
    """The plan of `node`, cached in the node's meta, so that it lives as long as the statement's
    plan."""
    kept = node.meta.get("duckeval")
    if kept is None or kept[:2] != (columns, types):
        kept = node.meta["duckeval"] = (columns, types, _Plan(node, columns, types))
    plan: _Plan = kept[2]
    return plan


def _run(sql: str, batch: pa.RecordBatch, parameters: Mapping[str, Any]) -> list[Value]:
    worker = _WORKER.get()
    requests: list[Request] = [Register("input", pa.Table.from_batches([batch]))]
    requests.append(Query(sql, parameters))
    values: list[Value] = []
    while True:
        rows = worker.ask_in_thread(requests)
        assert isinstance(rows, Rows)
        if rows.batch is not None:
            values += [value for (value,) in from_record_batch(rows.batch, rows.types)]
        if rows.last or rows.batch is None:
            return values
        requests = [Next()]
