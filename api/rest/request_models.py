"""Request bodies of the REST interface, as pydantic models with examples for OpenAPI."""

from __future__ import annotations

import base64
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    model_validator,
)

from hornbeam_server.api.rest.json_parameters import KeyValues, ParameterSets, StatementParameters
from hornbeam_server.api.security.roles import Grant, Role
from hornbeam_server.maintain.spans import Span
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.schema.copies import Using
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.renames import Rename
from hornbeam_server.storage.read_ranges import ReadRange
from hornbeam_server.storage.snapshot import ReadItem
from hornbeam_server.txlayer.statements.requests import (
    Parameters,
    Precondition,
    RepeatedStatement,
    Replay,
    SqlWork,
    Statement,
    TransactionRequest,
)
from hornbeam_server.txlayer.transactions.manager import TransactionLimits
from hornbeam_server.txlayer.views.refresh_groups import Finished

MAX_SQL = 1_000_000
"""Maximum characters of one statement."""
MAX_NAMES = 10_000
"""Maximum number of relations, views or tables that one body names."""
MAX_STATEMENTS = TransactionLimits().statements
MAX_SEARCH_PATH = 100
MAX_SCHEMA_NAME = 1_000
MAX_UNKNOWN = 20
"""Maximum number of unknown members of an object that the answer names."""
MAX_TS = 2**63 - 1
MAX_MS = 86_400_000
LAST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, in milliseconds since the epoch."""

Sql = Annotated[str, Field(min_length=1, max_length=MAX_SQL)]
Timestamp = Annotated[int, Field(ge=0, le=MAX_TS, description="A commit timestamp.")]
Milliseconds = Annotated[int, Field(gt=0, le=MAX_MS)]

SearchPath = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=MAX_SCHEMA_NAME)]] | None,
    Field(
        fail_fast=True,
        max_length=MAX_SEARCH_PATH,
        description="The schemas in which names without a schema are searched for, in their order;"
        " null: public.",
        examples=[["shop", "public"]],
    ),
]


class Body(BaseModel):
    """Base of all bodies. Validation is strict: text is no number, and 0 is not false.

    An invalid body gives few errors, however long it is: a list stops at its first error, and only
    the first unknown members are named.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, data: Any) -> Any:
        known = cls.model_fields
        if not isinstance(data, dict) or len(data) <= len(known) + MAX_UNKNOWN:
            return data
        unknown = islice((name for name in data if name not in known), MAX_UNKNOWN)
        return {name: data[name] for name in (*(known.keys() & data.keys()), *unknown)}


Item = TypeVar("Item")
Items = Annotated[list[Item], Field(fail_fast=True)]
Names = Annotated[list[str], Field(fail_fast=True, max_length=MAX_NAMES)]


def _few_members(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > MAX_NAMES:
        raise ValueError(f"{len(value)} members; at most {MAX_NAMES} are allowed")
    return value


ByName = Annotated[dict[str, Item], BeforeValidator(_few_members)]
"""Values by the names of relations, views or tables."""


Session = ByName[Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]]
SESSION = (
    "For currval and lastval: the last number that the client has taken from each sequence, as"
    " `drawn` of answers gave them; the last one at the end."
)


class StatementBody(Body):
    sql: Sql = Field(examples=["UPDATE item SET i_stock = i_stock - ? WHERE i_id = ?"])
    parameters: StatementParameters = Field(default_factory=list, examples=[[1, 42]])

    parameter_sets: ParameterSets | None = Field(None, examples=[[[1, 42], [2, 43]]])
    session: Session = Field(default_factory=dict, description=SESSION)
    search_path: SearchPath = None

    @model_validator(mode="after")
    def one_of_both(self) -> StatementBody:
        if self.parameter_sets is not None and self.parameters:
            raise ValueError("give either parameters or parameter_sets")
        return self

    def statement(self) -> SqlWork:
        if self.parameter_sets is None:
            return Statement(self.sql, self.parameters, self.session)
        return RepeatedStatement(self.sql, self.parameter_sets, self.session)


class PreconditionBody(Body):
    """A condition on a row, with exactly one of `if_absent: true` and `if_version`."""

    relation: str = Field(examples=["item"])
    key: KeyValues = Field(description="Primary key values in key order.", examples=[[42]])
    if_absent: bool = False
    if_version: Timestamp | None = Field(None, description="Commit timestamp of the row's version.")

    @model_validator(mode="after")
    def one_of_both(self) -> PreconditionBody:
        if self.if_absent == (self.if_version is not None):
            raise ValueError("give either if_absent: true or if_version")
        return self

    def precondition(self) -> Precondition:
        return Precondition(self.relation, tuple(self.key), self.if_version)


Hexadecimal = Annotated[str, Field(pattern="^([0-9a-fA-F]{2})*$")]
ReadBody = Annotated[tuple[str, Hexadecimal, Timestamp | None], Strict(False)]
"""Layout, key in hexadecimal, version; null: the row was absent."""


ReadRangeBody = Annotated[
    tuple[str, Hexadecimal, Hexadecimal | None, Annotated[int, Field(ge=0)], Timestamp],
    Strict(False),
]
"""Table, first key and the key behind the last in hexadecimal (null: to the last), rows,
snapshot."""
Isolation = Literal["read committed", "repeatable read", "serializable"]


def _read_range(given: tuple[str, str, str | None, int, int]) -> ReadRange:
    table, start, end, rows, at = given
    behind = None if end is None else bytes.fromhex(end)
    return ReadRange(table, bytes.fromhex(start), behind, rows, at)


class ReplayBody(Body):
    """The time and generated values that a dry run used, and digests of its results. A commit with
    them uses the same values, and is refused if a result differs."""

    now: int = Field(ge=0, le=LAST_MS, description="Milliseconds since the epoch.")
    numbers: Items[Annotated[tuple[str, str, int], Strict(False)]] = Field(default_factory=list)
    results: Items[str] = Field(default_factory=list)
    seed: str = Field("", max_length=64, description="Of random UUIDs.")

    def replay(self) -> Replay:
        return Replay(self.now, tuple(self.numbers), tuple(self.results), self.seed)


class TransactionBody(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "statements": [
                        {
                            "sql": "INSERT INTO orders (o_id, o_c_id, o_total) VALUES (?, ?, ?)",
                            "parameters": [1001, 7, "19.90"],
                        },
                        {
                            "sql": "UPDATE item SET i_stock = i_stock - :n WHERE i_id = :item",
                            "parameters": {"n": 1, "item": 42},
                        },
                    ]
                }
            ]
        }
    )

    statements: Items[StatementBody] = Field(min_length=1, max_length=MAX_STATEMENTS)
    preconditions: Items[PreconditionBody] = Field(default_factory=list)
    reads: Items[ReadBody] = Field(
        default_factory=list, description="Row versions the writes rest on, as a query gave them."
    )
    ranges: Items[ReadRangeBody] = Field(
        default_factory=list, description="Ranges the writes rest on, as a query gave them."
    )
    isolation: Isolation | None = Field(
        None, description="serializable: what the statements search for is checked at the commit."
    )
    bookmark: Timestamp = Field(0, description="The commit is later than this.")
    replay: ReplayBody | None = Field(None, description="What a dry run's answer gave.")
    dry_run: bool = Field(False, description="Say which rows would change; change nothing.")
    timeout_ms: Milliseconds | None = None

    def request(
        self, idempotency_key: str | None, timeout_s: float, owner: str
    ) -> TransactionRequest:
        return TransactionRequest(
            statements=tuple(statement.statement() for statement in self.statements),
            idempotency_key=idempotency_key,
            preconditions=tuple(item.precondition() for item in self.preconditions),
            reads=tuple(
                ReadItem(layout, bytes.fromhex(key), version) for layout, key, version in self.reads
            ),
            ranges=tuple(map(_read_range, self.ranges)),
            serializable=self.isolation == "serializable",
            bookmark=self.bookmark,
            dry_run=self.dry_run,
            replay=None if self.replay is None else self.replay.replay(),
            timeout_s=timeout_s,
            owner=owner,
        )

    def parameter_lists(self) -> list[Parameters]:
        keys: list[Parameters] = [condition.key for condition in self.preconditions]
        return keys + [statement.parameters for statement in self.statements]


STALENESS = (
    "Deferred views that are not older may answer aggregates although the query does not name"
    " them. It is an error if a deferred view that the query names is older."
)


class QueryBody(Body):
    sql: Sql = Field(examples=["SELECT c_fname, c_lname FROM customer WHERE c_id = ?"])
    parameters: StatementParameters = Field(default_factory=list, examples=[[7]])
    bookmark: Timestamp = Field(0, description="Read this commit or anything newer.")
    consistency: Literal["snapshot", "strong", "tentative"] = Field(
        "snapshot",
        description="Read what this node has acknowledged before, or (strong) any node. tentative:"
        " live and deferred views that are named are not read as of their last batch, but at the"
        " newest snapshot of this node; the answer says so in `tentative`.",
    )
    snapshot: Timestamp | None = Field(None, description="Read exactly as of this timestamp.")
    max_rows: int | None = Field(None, gt=0, le=MAX_TS, description="More rows are an error.")
    timeout_ms: Milliseconds | None = None
    replay: ReplayBody | None = Field(None, description="What a dry run of `pending` gave.")
    pending: Items[StatementBody] = Field(
        default_factory=list,
        max_length=MAX_STATEMENTS,
        description="Uncommitted writes of the client to lay over the data.",
    )
    trace: bool = Field(False, description="Return the row versions read.")
    isolation: Isolation | None = Field(
        None,
        description="With `trace`, serializable: return the ranges read instead of row versions;"
        " read committed: return row versions only of a query with FOR UPDATE.",
    )
    use_views: bool = True
    max_staleness_ms: Milliseconds | None = Field(None, description=STALENESS)
    view_bookmark: Timestamp = Field(
        0, description="Live and deferred views that are named show this commit or anything newer."
    )
    view_wait_ms: Milliseconds | None = Field(
        None,
        description="Wait so long until the named views are as fresh as max_staleness_ms and"
        " view_bookmark ask; null: if they are not, it is an error at once.",
    )
    session: Session = Field(default_factory=dict, description=SESSION)
    search_path: SearchPath = None

    def parameter_lists(self) -> list[Parameters]:
        return [self.parameters, *(item.parameters for item in self.pending)]

    @model_validator(mode="after")
    def strong_is_now(self) -> QueryBody:
        if self.consistency == "strong" and self.snapshot is not None:
            raise ValueError("a strong read is of now; leave out the snapshot")
        return self


class ExplainBody(Body):
    sql: Sql = Field(examples=["SELECT * FROM customer, orders WHERE c_id = o_c_id"])
    parameters: StatementParameters | None = None
    use_views: bool = True
    trace: bool = Field(False, description="As in a query whose reads are traced.")
    bookmark: Timestamp = 0
    max_staleness_ms: Milliseconds | None = Field(None, description=STALENESS)
    consistency: Literal["snapshot", "strong", "tentative"] = Field(
        "snapshot", description="As in a query."
    )
    analyze: bool = Field(False, description="Run the query, and count the rows of each step.")
    costs: bool = Field(True, description="Estimated rows in the text.")
    timing: bool = Field(True, description="The time of each step in the text.")
    summary: bool = Field(True, description="The time of the run in the text.")
    verbose: bool = Field(False, description="The columns of the result in the text.")
    search_path: SearchPath = None


class RenameItem(Body):
    relation: str = Field(examples=["orders"], description="A relation; or a view, without column.")
    column: str = Field(
        "", examples=["o_note"], description="Empty: the relation or view itself gets the name."
    )
    new: str = Field(
        examples=["o_remark"],
        description="A relation or view that gets a name in another schema moves there.",
    )
    space: bool = Field(False, description="The schema `relation` itself gets the name.")
    type: bool = Field(
        False,
        description="The type `relation` itself gets the name, or the label `column` of it.",
    )


class UsingItem(Body):
    relation: str = Field(examples=["orders"])
    column: str = Field(examples=["o_total"])
    sql: str = Field(
        description="An expression over the rows in force.", examples=["CAST(o_total AS BIGINT)"]
    )


class PlanBody(Body):
    ddl: str = Field(examples=["CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)"])
    workload: str | None = Field(
        "",
        examples=["-- name: by_id\nSELECT name FROM t WHERE id = ?;"],
        description="null: the workload in force.",
    )
    roots: Names | None = Field(None, description="null: learn the roots.")
    method: Literal["optimal", "paper"] = "optimal"
    budget: float | None = Field(
        None,
        ge=0,
        description="Expected bytes of all views and view-indexes together, at most so many times"
        " those of the base relations; the least valuable views are dropped first.",
    )
    aggregates: bool = Field(True, description="Aggregate views may be chosen.")
    row_counts: ByName[Annotated[int, Field(ge=0, le=10**15)]] | None = Field(
        None, description="Expected rows per relation, where they are not stored yet."
    )
    ddl_file: str = Field(
        "<ddl>", description="Name of the DDL in messages; empty: the text is from no file."
    )
    dialect: Literal["postgres", "mysql", "sqlite", "sqlserver"] | None = Field(
        None, description="The dialect of the DDL; null: it is recognised."
    )
    workload_file: str = Field("<workload>", description="Name of the workload in messages.")
    renames: Items[RenameItem] = Field(
        [],
        max_length=1_000,
        description="Relations, views and columns in force that the DDL calls by other names, one"
        " after the other. Without it, each would be dropped, and another one added.",
    )
    usings: Items[UsingItem] = Field(
        [],
        max_length=1_000,
        description="The values of columns that get another type, as behind USING of ALTER TABLE.",
    )
    query_log: str = Field(
        "", description="A statement per line, or JSON lines with sql and count: gives weights."
    )

    def request(self) -> PlanRequest:
        return PlanRequest(
            ddl=self.ddl,
            workload=self.workload,
            roots=None if self.roots is None else tuple(self.roots),
            method=self.method,
            budget=self.budget,
            aggregates=self.aggregates,
            row_counts=self.row_counts or {},
            ddl_file=self.ddl_file,
            source=None if self.dialect is None else Source(self.dialect),
            workload_file=self.workload_file,
            query_log=self.query_log,
            renames=tuple(Rename(**each.model_dump()) for each in self.renames),
            usings=tuple(Using(each.relation, each.column, each.sql) for each in self.usings),
        )


class ApplyBody(PlanBody):
    plan_id: str = Field(description="Of the plan that was looked at; another one is refused.")
    allow_drop: bool = Field(
        False, description="Relations and columns may be dropped, with their rows or values."
    )
    build: Literal["node", "spark"] = Field(
        "node", description="Who builds new views and indexes; spark: hornbeam materialize."
    )


class AlterBody(Body):
    sql: Sql = Field(
        description="ALTER TABLE, DROP TABLE, INDEX, VIEW or SCHEMA, or CREATE TABLE … AS.",
        examples=["ALTER TABLE orders DROP COLUMN o_note"],
    )
    search_path: SearchPath = None


class RestartBody(Body):
    sql: str = Field(
        description="ALTER TABLE … ALTER COLUMN … RESTART [WITH n], ALTER SEQUENCE … RESTART [WITH"
        " n], or SELECT setval('sequence', n[, is_called]) [FROM …], where n may be an expression.",
        examples=["ALTER TABLE orders ALTER COLUMN o_id RESTART WITH 1000"],
    )
    parameters: StatementParameters = Field(default_factory=list)
    search_path: SearchPath = None


class CommentBody(Body):
    sql: str = Field(
        description="COMMENT ON kind name IS 'text', or IS NULL.",
        examples=["COMMENT ON COLUMN orders.o_id IS 'The number on the invoice.'"],
    )
    search_path: SearchPath = None


class VerifyBody(Body):
    names: Names | None = Field(None, description="Views and indexes; null: all of them.")
    repair: bool = Field(False, description="Write what is missing or wrong, in transactions.")


def _base64(text: str) -> str:
    base64.b64decode(text, validate=True)  # its error is a ValueError
    return text


class RepairBody(Body):
    keys: Items[Annotated[str, AfterValidator(_base64)]] = Field(
        max_length=5_000, description="Stored keys of rows, in base64.", examples=[["FQE="]]
    )

    def decoded(self) -> list[bytes]:
        return [base64.b64decode(key) for key in self.keys]


class ChangesBody(Body):
    after: int | None = Field(
        None, ge=0, description="A snapshot; changes after it are asked for. null: none are."
    )
    upto: int | None = Field(
        None, ge=0, description="A snapshot, with changes up to it. null: the newest."
    )


class FinishBody(Body):
    changes: int = Field(0, ge=0, le=MAX_TS, description="Changes of relations that were read.")
    rows: int = Field(0, ge=0, le=MAX_TS, description="Rows that were put.")
    seconds: float = Field(0.0, ge=0, description="How long it took.")

    def finished(self) -> Finished:
        return Finished(self.changes, self.rows, self.seconds)


class ResultBody(Body):
    view: str = Field(description="A view that each batch recomputes from its whole SELECT.")
    digest: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of its rows.")


class RebuildBody(Body):
    views: Names = Field(min_length=1, description="Views; of groups: deferred views.")


class ExportBody(Body):
    snapshot: int | None = Field(None, ge=0, description="To read as of; null: the newest.")
    view: str | None = Field(
        None, description="What is to be read: a deferred view is, as of its group's moment."
    )


class BuildBody(Body):
    names: Names = Field(
        min_length=1,
        description="Views, with their indexes; indexes; relations: the indexes on them.",
        examples=[["customer__orders"]],
    )
    rebuild: bool = Field(False, description="Rebuild what is readable, too.")


class RangeBody(Body):
    start: Hexadecimal = Field(description="Encoded key.", examples=[""])
    end: Hexadecimal | None = Field(description="Before this encoded key; null: to the last.")

    def span(self) -> Span:
        return Span(
            bytes.fromhex(self.start), None if self.end is None else bytes.fromhex(self.end)
        )


class FinishedBody(RangeBody):
    rows: ByName[Annotated[int, Field(ge=0)]] = Field(
        min_length=1,
        description="By physical table, rows that were written.",
        examples=[{"v.customer__orders.3": 5000}],
    )
    scanned: int = Field(ge=0, description="Rows that were scanned.")


class BuildFailedBody(Body):
    table: str = Field(
        min_length=1, max_length=1_000, description="The view's.", examples=["a.revenue.7"]
    )
    error: str = Field(min_length=1, max_length=4_000, description="The reason, for operators.")


LoadNumber = Annotated[
    int, Field(ge=0, le=MAX_TS, description="Of the load, as it was answered when it began.")
]


class LoadBody(Body):
    relations: Names = Field(min_length=1, examples=[["customer", "orders"]])
    identity: str = Field(
        min_length=1, max_length=200, description="Identifies the load; needed to resume it."
    )
    splits: ByName[Items[Hexadecimal]] = Field(
        {},
        description="By relation, encoded keys at which its tables and those of its views are"
        " divided from the beginning, where the store divides tables.",
    )

    def keys(self) -> dict[str, list[bytes]]:
        return {name: [bytes.fromhex(key) for key in keys] for name, keys in self.splits.items()}


class RowsBody(Body):
    """The rows of one relation, as in a body of `/v1/load/{relation}`."""

    relation: str = Field(examples=["customer"])
    content_type: str = Field("text/csv", max_length=200)
    content: Annotated[str, AfterValidator(_base64)] = Field(
        description="CSV or an Arrow stream, in base64.", examples=["Y19pZCxjX25hbWUKMSxBbm4K"]
    )

    def decoded(self) -> bytes:
        return base64.b64decode(self.content)


class LoadTogetherBody(Body):
    parts: Items[RowsBody] = Field(min_length=1, max_length=MAX_STATEMENTS)


Whole = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
"""A value of an identity column."""


class LoadedBody(RangeBody):
    number: LoadNumber
    relation: str
    rows: int = Field(ge=0, description="Rows of the relation that were written.")
    numbers: ByName[Annotated[Items[Whole], Field(min_length=2, max_length=2)]] = Field(
        {},
        description="Of identity columns the least and the greatest number that was written: new"
        " rows get numbers behind them.",
        examples=[{"o_id": [1, 5000]}],
    )

    def reach(self) -> dict[str, tuple[int, int]]:
        return {column: (least, most) for column, (least, most) in self.numbers.items()}


class LoadEndBody(Body):
    number: LoadNumber


Lax = Strict(False)
"""For enumerations: strict validation accepts only their members, which JSON cannot express."""
MAX_VALID_S = 100 * 366 * 86_400


class KeyBody(Body):
    name: str = Field(
        min_length=1, max_length=100, description="Who will use it.", examples=["shop"]
    )
    role: Annotated[Role, Lax] = Field(examples=["writer"])
    grants: ByName[Annotated[Grant, Lax]] | None = Field(
        None,
        description="What of the database the key is for: read or write per relation, read per"
        " view. null: all of it.",
        examples=[{"orders": "write", "customer": "read"}],
    )
    valid_for_s: int | None = Field(
        None, gt=0, le=MAX_VALID_S, description="Seconds until it expires; null: never."
    )
