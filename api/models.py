"""Request bodies of the REST interface, as pydantic models with examples for OpenAPI."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from api.planning import PlanRequest
from storage.snapshot import ReadItem
from txlayer.model import Precondition, Statement, TransactionRequest

Values = list[Any] | dict[str, Any]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StatementBody(Body):
    sql: str = Field(examples=["UPDATE item SET i_stock = i_stock - ? WHERE i_id = ?"])
    parameters: Values = Field(default_factory=list, examples=[[1, 42]])

    def statement(self) -> Statement:
        return Statement(self.sql, self.parameters)


class PreconditionBody(Body):
    """Exactly one of `if_absent: true` and `if_version`."""

    relation: str
    key: list[Any] = Field(description="Primary key values in key order.")
    if_absent: bool = False
    if_version: int | None = Field(None, description="Commit timestamp of the row's version.")

    @model_validator(mode="after")
    def one_of_both(self) -> PreconditionBody:
        if self.if_absent == (self.if_version is not None):
            raise ValueError("give either if_absent: true or if_version")
        return self

    def precondition(self) -> Precondition:
        return Precondition(self.relation, tuple(self.key), self.if_version)


ReadBody = tuple[str, str, int | None]
"""Layout, key in hexadecimal, version; null: the row was absent."""


class TransactionBody(Body):
    statements: list[StatementBody] = Field(default_factory=list)
    preconditions: list[PreconditionBody] = Field(default_factory=list)
    reads: list[ReadBody] = Field(
        default_factory=list, description="Row versions the writes rest on, as a query gave them."
    )
    bookmark: int = Field(0, ge=0, description="The commit is later than this.")
    dry_run: bool = Field(False, description="Say which rows would change; change nothing.")
    timeout_ms: int | None = Field(None, gt=0)

    def request(self, idempotency_key: str | None, timeout_s: float) -> TransactionRequest:
        return TransactionRequest(
            statements=tuple(statement.statement() for statement in self.statements),
            idempotency_key=idempotency_key,
            preconditions=tuple(item.precondition() for item in self.preconditions),
            reads=tuple(read_item(item) for item in self.reads),
            bookmark=self.bookmark,
            dry_run=self.dry_run,
            timeout_s=timeout_s,
        )


def read_item(item: ReadBody) -> ReadItem:
    layout, key, version = item
    return ReadItem(layout, bytes.fromhex(key), version)


class QueryBody(Body):
    sql: str = Field(examples=["SELECT c_fname, c_lname FROM customer WHERE c_id = ?"])
    parameters: Values = Field(default_factory=list, examples=[[7]])
    bookmark: int = Field(0, ge=0, description="Read this commit or anything newer.")
    consistency: Literal["snapshot", "strong"] = "snapshot"
    snapshot: int | None = Field(None, ge=0, description="Read exactly as of this timestamp.")
    max_rows: int | None = Field(None, gt=0)
    timeout_ms: int | None = Field(None, gt=0)
    pending: list[StatementBody] = Field(
        default_factory=list, description="Uncommitted writes of the client to lay over the data."
    )
    trace: bool = Field(False, description="Return the row versions read.")
    use_views: bool = True


class ExplainBody(Body):
    sql: str
    parameters: Values | None = None
    use_views: bool = True


class PlanBody(Body):
    ddl: str = Field(examples=["CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)"])
    workload: str = Field("", examples=["-- name: by_id\nSELECT name FROM t WHERE id = ?;"])
    roots: list[str] | None = Field(None, description="null: learn the roots.")
    method: Literal["optimal", "paper"] = "optimal"
    budget: float | None = Field(None, gt=0, description="Storage, in times the base size.")
    row_counts: dict[str, int] = Field(default_factory=dict)
    ddl_file: str = "<ddl>"
    workload_file: str = "<workload>"

    def request(self) -> PlanRequest:
        return PlanRequest(
            ddl=self.ddl,
            workload=self.workload,
            roots=None if self.roots is None else tuple(self.roots),
            method=self.method,
            budget=self.budget,
            row_counts=self.row_counts,
            ddl_file=self.ddl_file,
            workload_file=self.workload_file,
        )


class ApplyBody(PlanBody):
    plan_id: str


class VerifyBody(Body):
    names: list[str] | None = None
    repair: bool = False
