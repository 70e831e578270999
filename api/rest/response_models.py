"""Models of the answers, for OpenAPI only: `api/rest/serializers.py` makes the answers.

The contract tests compare the answers with these models.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hornbeam_server.api.rest.streams import ARROW, EVENTS, NDJSON

Documented = dict[int | str, dict[str, Any]]
Scalar = None | bool | int | float | str
Cell = Scalar | list[Scalar]


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SchemaProblem(BaseModel):
    """A problem of a schema's text, of a view in it, or of a workload."""

    code: str = Field(examples=["schema-invalid"])
    detail: str = Field(examples=["Type INET is not supported."])
    cure: str
    file: str = ""
    line: int = Field(0, description="From 1.")
    column: int = Field(0, description="From 1.")


class Problem(BaseModel):
    """RFC 9457 problem details. Errors may add members, such as names, positions or counts."""

    type: str = Field(examples=["urn:hornbeam:unique-violation"])
    title: str = Field(examples=["unique violation"])
    status: int = Field(examples=[409])
    detail: str = Field(examples=["customer (c_email) holds this value already."])
    code: str = Field(examples=["unique-violation"], description="Stable.")
    cure: str = Field(description="What to do about it.")
    retryable: bool = Field(description="Sending the same again may succeed.")
    outcome: Literal["none", "committed", "unknown"] = Field(
        description="What is known of the transaction; none: it had no effect."
    )
    problems: list[SchemaProblem] | None = Field(
        None, description="All problems of a schema's text; the others are of the first."
    )


class Live(Answer):
    status: Literal["live"]


class Ready(Answer):
    status: Literal["ready"]


DRAWN = "The last number taken from each sequence, if any; the last one at the end."


class OutputColumn(Answer):
    name: str = Field(examples=["o_total"])
    type: str = Field(examples=["DECIMAL(15,2)"], description='SQL type; "" if it has none.')


class StatementAnswer(Answer):
    affected: int
    columns: list[OutputColumn] = Field(description="Of RETURNING.")
    rows: list[list[Cell]]
    tag: str | None = Field(
        None,
        examples=["INSERT 0 3"],
        description="PostgreSQL's command tag. An outcome that is asked for by its id has none.",
    )


class TimingsAnswer(BaseModel):
    plan: float
    lock: float
    compute: float
    log: float
    apply: float


class MutationAnswer(Answer):
    layout: str
    key: dict[str, Cell]
    old: dict[str, Cell] | None
    new: dict[str, Cell] | None


class Transaction(Answer):
    transaction_id: str = Field(examples=["442a44457137672b3218c1007dc8f76a"])
    commit_ts: int = Field(examples=[1795262813790], description="0 for a dry run.")
    bookmark: int = Field(description="Pass it on to read this commit or anything newer.")
    statements: list[StatementAnswer]
    affected: dict[str, int] = Field(
        examples=[{"orders": 1, "customer__orders": 1}],
        description="Stored rows changed per relation, view and index.",
    )
    timings_ms: TimingsAnswer
    applied: bool = Field(description="False: committed, but no read shows it yet.")
    mutations: list[MutationAnswer] | None = Field(None, description="Of a dry run.")
    replay: dict[str, Any] | None = Field(
        None, description="Of a dry run: send it with the commit, and its results stay true."
    )
    drawn: dict[str, int] | None = Field(None, description=DRAWN)


class Outcome(Answer):
    transaction_id: str
    outcome: Literal["committed", "unknown"]
    commit_ts: int | None
    answer: Transaction | None


class TentativeSnapshot(Answer):
    as_of: int = Field(
        description="The snapshot as of which the named live and deferred views are stored. What"
        " was committed from there to `snapshot` was added in memory. Without such views:"
        " `snapshot`."
    )
    reason: str = Field(
        description="Why the answer is only as of `as_of`, as that of a query that is not"
        " tentative; empty: it is not."
    )


class Rows(Answer):
    columns: list[OutputColumn]
    rows: list[list[Cell]] = Field(
        examples=[[[1, "19.90", "2026-01-31"]]],
        description="DECIMAL, DATE, TIME, TIMESTAMP, INTERVAL and UUID as text, BLOB as base64.",
    )
    snapshot: int
    served_by: list[str] = Field(examples=[["customer__orders"]])
    reads: list[tuple[str, str, int | None]] | None = Field(
        description="With `trace`: layout, key in hexadecimal, version."
    )
    ranges: list[tuple[str, str, str | None, int, int]] | None = Field(
        None,
        description="With `trace`, serializable: table, first key, key behind the last, rows,"
        " snapshot.",
    )
    elapsed_ms: float
    drawn: dict[str, int] | None = Field(None, description=DRAWN)
    tentative: TentativeSnapshot | None = Field(
        None, description="Of a query with the consistency tentative."
    )


class Explained(BaseModel):
    sql: str
    rewritten: str = Field(description="The SQL over views.")
    served_by: list[str]
    steps: list[dict[str, Any]]
    notes: list[str] = Field(description="Why joins are not covered by views.")
    output: list[str] = Field(description="The columns of the result, each with its type.")
    columns: list[dict[str, str]] = Field(
        description="The columns of the result, also of RETURNING: names and types (empty: only the"
        " run knows it).",
        examples=[[{"name": "o_id", "type": "INTEGER"}]],
    )
    parameters: list[dict[str, str]] = Field(
        description="The parameters: names, or numbers from 0, and types.",
        examples=[[{"name": "0", "type": "DECIMAL(15,2)"}]],
    )
    ran: dict[str, Any] | None = Field(description="With `analyze`: rows and milliseconds.")
    text: str


class Plan(Answer):
    plan_id: str = Field(examples=["0f3c9a5be2d14c77"])
    base_version: int
    text: str
    plan: dict[str, Any]
    changes: list[dict[str, str]]
    declared_views: list[dict[str, str]] = Field(
        description="The declared views that are built, changed or dropped."
    )
    mermaid: str
    svg: str


class Applied(Answer):
    catalog_version: int
    building: list[str]


class AlteredSchema(Answer):
    ddl: str = Field(description="The schema after the statement, to plan and apply.")
    same: bool = Field(description="The statement changes nothing.")
    renames: list[dict[str, str | bool]] = Field(
        description="Renamed columns, relations, views, sequences and schemas, for plan and apply.",
        examples=[[{"relation": "orders", "column": "o_note", "new": "o_remark"}]],
    )
    usings: list[dict[str, str]] = Field(
        description="The values of columns that get another type, for plan and apply.",
        examples=[[{"relation": "orders", "column": "o_note", "sql": "upper(o_note)"}]],
    )
    notes: list[str] = Field(description="What else the statement changes, or why it does nothing.")
    insert: str = Field(description="What fills the new table; empty if there is nothing to fill.")
    catalog_version: int


class Restarted(Answer):
    relation: str = Field(examples=["orders"], description='"" for a sequence of its own.')
    column: str = Field(examples=["o_id"], description="The column, or the sequence.")
    next: int | None = Field(
        description="The number that is given next; null: setval of NULL changes nothing."
    )
    value: int | None = Field(description="The number in the statement; setval's result.")
    catalog_version: int
    drawn: dict[str, int] | None = Field(None, description="What currval gives after setval.")


class CommentSet(Answer):
    kind: str = Field(examples=["column"])
    name: str = Field(examples=["orders"], description="The full name of the object or its owner.")
    member: str = Field(examples=["o_id"], description='A column or constraint; "" for others.')
    notice: str = Field(examples=[""], description="Why the statement has no effect, or empty.")
    catalog_version: int


class View(Answer):
    name: str = Field(examples=["customer__orders"])
    path: list[str] = Field(examples=[["customer", "orders"]])
    key: list[str]
    columns: list[dict[str, str]]
    state: Literal["building", "catching up", "readable", "quarantined", "dropping"]
    indexes: list[dict[str, Any]]
    rows: int | None = Field(description="An estimate; null: not known.")
    bytes: int | None = None
    progress: dict[str, Any] | None
    deferred: dict[str, Any] | None = Field(
        description="Of a deferred view: its SELECT and group, as of when it is, how it is kept."
    )
    immediate: dict[str, Any] | None = Field(
        description="Of an immediate view: its SELECT, how transactions maintain it, and whether a"
        " plan has chosen it for the workload."
    )
    comment: str | None = Field(None, description="Its comment; left out when it has none.")


class PlainView(Answer):
    """A name for a SELECT, which is not stored."""

    name: str
    sql: str
    sources: list[str] = Field(description="The relations and views that its SELECT names.")
    columns: list[dict[str, str]]
    comment: str | None = Field(None, description="Its comment; left out when it has none.")


class DeclaredSequence(Answer):
    name: str
    type: str
    start: int
    increment: int
    minvalue: int
    maxvalue: int
    cycle: bool
    owner: tuple[str, str] | None = Field(description="The table and column of OWNED BY.")
    comment: str | None = Field(None, description="Its comment; left out when it has none.")


class Schema(Answer):
    version: int
    ddl: str
    schemas: list[str] = Field(examples=[["public", "shop"]])
    relations: list[dict[str, Any]]
    trees: dict[str, dict[str, str] | None]
    views: list[View]
    plain_views: list[PlainView]
    sequences: list[DeclaredSequence]
    types: list[dict[str, Any]] = Field(description="Enumerations, with their `name`.")
    domains: list[dict[str, Any]] = Field(description="Each with its `name` and named `checks`.")
    indexes: list[dict[str, Any]]
    workload: list[dict[str, Any]]
    method: str
    budget: float | None
    aggregates: bool
    comments: str | None = Field(
        None, description="COMMENT ON for each comment; left out when there is none."
    )


class Graph(Answer):
    relations: list[dict[str, Any]]
    trees: dict[str, dict[str, str] | None]
    views: list[dict[str, Any]]


class MissingEnd(Answer):
    """A log whose end is missing: acknowledged commits may be lost."""

    log: str = Field(examples=["local"])
    ends_at: str = Field(description="Segment and offset where the log that was found ended.")
    known_to_reach: str = Field(description="Where what is stored says that it had reached.")


class LogAnswer(Answer):
    segments: int
    bytes: int
    missing: list[MissingEnd] = Field(
        description="Logs whose end was missing when this process took them over."
    )


class VerifiedLast(Answer):
    name: str = Field(examples=["customer__orders"])
    kind: str = Field(examples=["view", "index", "foreign key", "CHECK"])
    snapshot: int = Field(description="A commit timestamp: milliseconds since the epoch.")
    rows: int
    differences: int = Field(description="Rows that were not as they should be.")
    repaired: int


class Status(BaseModel):
    uptime_s: float
    data: str
    speedups: str = Field(
        description="The implementation that reads many stored rows: `native`, or `python` with the"
        " reason.",
        examples=["native", "python: hornbeam-speedups is not installed"],
    )
    catalog_version: int
    watermark: int
    wall_ms: int
    transactions: dict[str, int]
    queries: int
    locks: dict[str, Any]
    log: LogAnswer
    views: dict[str, str]
    builds: list[dict[str, Any]]
    loading: list[str] = Field(description="Relations that an initial load is filling.")
    verified: list[VerifiedLast] = Field(
        description="The newest verification of each view, index, foreign key and CHECK by this"
        " node, since it has started."
    )
    nodes: dict[str, Any] | None = Field(description="Null for a database in a folder.")
    groups: list[dict[str, Any]] | None = Field(
        description="As of GET /v1/groups; null while the coordination service does not answer."
    )


class Loaded(Answer):
    rows: int = Field(examples=[5000])
    commit_ts: int


class Repaired(Answer):
    repaired: int = Field(description="Rows that were not as they should be.", examples=[3])


class Exported(Answer):
    name: str = Field(examples=["1795262813790-442a44457137672b3218c1007dc8f76a"])
    snapshot: int
    catalog: str = Field(description="The whole catalog in its stored form, as JSON text.")
    source: dict[str, Any] = Field(
        examples=[{"type": "hbase", "gateways": ["gate1:9091"], "namespace": "shop"}]
    )
    until_ms: int = Field(description="Wall clock: rows of the snapshot are kept so long.")


class LastBatch(Answer):
    changes: int
    rows: int
    seconds: float
    by: str = Field(description="The node that did it; empty: another process.", examples=["local"])


class GroupProblem(Answer):
    message: str
    cure: str


class CommitLag(Answer):
    batches: int
    p50_s: float | None = Field(
        description="In half of the batches, the oldest commit was shown within this time, to the"
        " next bound of the histogram; null: above the last bound."
    )
    p99_s: float | None


class Group(Answer):
    name: str = Field(examples=["default"])
    views: list[str] = Field(examples=[["revenue"]])
    readable: list[str] = Field(description="Those of them that can be read as of `as_of`.")
    interval_s: float = Field(description="The seconds between batches, if a process runs them.")
    as_of: int | None = Field(description="The snapshot that its views are of; null: not built.")
    lag_s: float | None = Field(description="How long ago that was.")
    under_way: int | None = Field(description="The snapshot that the batch under way leads to.")
    last: LastBatch | None
    problem: GroupProblem | None = Field(
        description="Why the nodes do not do the next batch; null: they do, or have not tried."
    )
    left: str | None = Field(
        description="Why the nodes leave the next batch to Spark; null: they do not.",
        examples=["revenue is to be built from about 250000 rows"],
    )
    node: str | None = Field(
        description="The address of the node that does the next batch.", examples=["local"]
    )
    commit_lag: CommitLag | None = Field(
        description="How long commits have waited for the batches that the asked node has done;"
        " null: it has done none."
    )


class Refreshed(Answer):
    group: str = Field(examples=["default"])
    as_of: int = Field(description="The snapshot that the group shows now.")
    views: list[str] = Field(examples=[["revenue"]])
    last: LastBatch


class Batch(Answer):
    group: str = Field(examples=["default"])
    as_of: int
    upto: int
    refreshed: list[str] = Field(description="Views that go from `as_of` to `upto`.")
    built: list[str] = Field(description="Views that are made as of `upto`.")
    usable: list[str] = Field(description="Indexes and views that can be read as of `as_of`.")
    export: dict[str, Any] = Field(description="As of POST /v1/exports, as of `upto`.")
    changes: dict[str, Any] = Field(description="As of POST /v1/changes.")


class BatchFinished(Answer):
    as_of: int


class Agreed(Answer):
    digest: str


class Rebuilding(Answer):
    views: list[str]


class LogSegment(Answer):
    log: str = Field(examples=["1795262813790442a44457137672b32"])
    epoch: int
    sequence: int
    bytes: int


class ChangesFound(Answer):
    after: int
    upto: int = Field(description="A snapshot: all that is committed at or below it is there.")
    catalog: str = Field(description="That of `upto` in its stored form, as JSON text.")
    begun: dict[str, int] = Field(
        description="Relations that are newer than `after`: since when they are there.",
        examples=[{"orders": 1795262813790}],
    )
    loaded: dict[str, int] = Field(
        description="Relations whose initial load ended after `after`, and when: its rows are in no"
        " log."
    )
    source: dict[str, Any] = Field(
        examples=[{"type": "hdfs", "url": "hdfs://name1:8020", "folder": "/shop/log"}]
    )
    segments: list[LogSegment] = Field(
        description="Sealed segments of logs, with all commits above `after` and up to `upto`"
        " among others."
    )


class ExportEnded(Answer):
    ended: str


class Build(Answer):
    name: str = Field(examples=["customer__orders"])
    table: str = Field(examples=["v.customer__orders.3"], description="Where its rows go.")
    source: str = Field(description="What it shows; all of one source are built together.")
    relation: str = Field(examples=["orders"], description="That is scanned for it.")
    whole: bool = Field(
        description="It is built at one snapshot: all its keys are finished together."
    )
    state: str
    missing: list[tuple[str, str | None]] = Field(
        examples=[[["", "1510"], ["1520", None]]],
        description="Ranges of the relation's keys, in hexadecimal, that are not finished; null: to"
        " the last.",
    )
    scanned: int = Field(description="Rows that were scanned, about.")
    total: int | None = Field(description="Rows to scan, about; null: not known.")


class BuildCancelled(Answer):
    cancelled: list[str]


class LoadUnderWay(Answer):
    relations: list[str] = Field(examples=[["customer", "orders"]])
    identity: str
    number: int = Field(description="Of its tables.")
    missing: dict[str, list[tuple[str, str | None]]] = Field(
        description="By relation, ranges of keys, in hexadecimal, that are not finished; null: to"
        " the last.",
    )
    rows: dict[str, int] = Field(description="By relation, rows that were written, about.")


class Loads(Answer):
    load: LoadUnderWay | None


class LoadEnded(Answer):
    version: int = Field(description="Of the catalog that has the rows.")


class LoadCancelled(Answer):
    cancelled: list[str] = Field(description="Relations that were to be loaded.")


class BulkPut(Answer):
    rows: int


class Key(Answer):
    id: str = Field(examples=["4f0c7be21a93"], description="Public.")
    name: str
    role: Literal["reader", "writer", "admin"]
    grants: dict[str, Literal["read", "write"]] | None
    state: Literal["active", "expired", "revoked"]
    created_ms: int
    created_by: str = Field(description='Id of the key that made it; "" for none.')
    expires_ms: int | None
    revoked_ms: int | None


class FreshKey(Key):
    key: str = Field(description="The whole key, shown this once.")


LOAD_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "text/csv": {
                "schema": {"type": "string"},
                "example": 'c_id,c_name,c_note\n1,Ann,\n2,"Bo, the second",""\n',
            },
            "application/csv": {"schema": {"type": "string"}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}

PUTS_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


def of(model: Any, *statuses: int) -> Documented:
    """OpenAPI responses of a route: a JSON answer, or a problem with one of these statuses."""
    return {200: {"model": model}, **problems(*statuses)}


def leading_to(answer: Documented, **links: dict[str, Any]) -> Documented:
    """`answer` with OpenAPI links to operations that take its values."""
    return {**answer, 200: {**answer[200], "links": links}}


OUTCOME_OF_IT = {
    "operationId": "transaction_outcome",
    "parameters": {"transaction_id": "$response.body#/transaction_id"},
    "description": "What became of the transaction.",
}
READ_OF_IT = {
    "operationId": "query",
    "requestBody": {
        "sql": "SELECT c_fname, c_lname FROM customer WHERE c_id = 7",
        "bookmark": "$response.body#/bookmark",
    },
    "description": "A read that is sure to see the commit.",
}
APPLY_IT = {
    "operationId": "apply_schema",
    "requestBody": {
        "plan_id": "$response.body#/plan_id",
        "ddl": "$request.body#/ddl",
        "workload": "$request.body#/workload",
    },
    "description": "The same body with the plan's id puts the plan into force.",
}
FIRST_OF_THEM = {
    "operationId": "show_view",
    "parameters": {"name": "$response.body#/0/name"},
    "description": "One of the views.",
}


_SCHEMAS = "#/components/schemas/"


def problems(*statuses: int) -> Documented:
    return {status: _problem(status) for status in statuses}


def _problem(status: int) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
    return {"description": HTTPStatus(status).phrase, "content": content}


def problem_schemas() -> dict[str, Any]:
    """The schemas that answers of `problems` refer to, by name."""
    schema = Problem.model_json_schema(ref_template=_SCHEMAS + "{model}")
    return {**schema.pop("$defs", {}), "Problem": schema}


def text(description: str, *media_types: str) -> Documented:
    content = {media_type: {"schema": {"type": "string"}} for media_type in media_types}
    return {200: {"description": description, "content": content}}


def query(*statuses: int) -> Documented:
    """OpenAPI responses of a query: JSON rows, an Arrow stream, or a problem."""
    arrow = {ARROW: {"schema": {"type": "string", "format": "binary"}}}
    of_stream = {"schema": {"type": "string"}, "description": "Of an Arrow stream."}
    label = "Of a tentative Arrow stream: `tentative."
    headers = {
        **dict.fromkeys(("Hornbeam-Snapshot", "Hornbeam-Served-By"), of_stream),
        "Hornbeam-As-Of": of_stream | {"description": f"{label}as_of` of the JSON answer."},
        "Hornbeam-Reason": of_stream | {"description": f"{label}reason`, percent-encoded."},
    }
    answer = {"model": Rows, "content": arrow, "headers": headers}
    return {200: answer, **problems(*statuses)}


def subscription(*statuses: int) -> Documented:
    """OpenAPI responses of a subscription: messages, or a problem."""
    begin = '{"type":"begin","name":"orders","moment":1795262813860,"rows":false}\n'
    change = '{"operation":"insert","before":null,"after":[7,1,"9.50"]}'
    lines = begin + '{"type":"changes","moment":1795262813910,"changes":[' + change + "]}\n"
    content = {
        NDJSON: {"schema": {"type": "string"}, "example": lines},
        EVENTS: {"schema": {"type": "string"}},
    }
    answer = {"description": "Messages until the client disconnects.", "content": content}
    return {200: answer, **problems(*statuses)}


def graph(*statuses: int) -> Documented:
    drawn = text("The graph.", "image/svg+xml", "text/plain")[200]
    return {200: {**drawn, "model": Graph}, **problems(*statuses)}


def verify(*statuses: int) -> Documented:
    lines = (
        '{"progress":{"name":"customer__orders","done":0,"total":2}}\n'
        '{"report":{"snapshot":1795262813860,"differences":0,"checked":[]}}\n'
    )
    content = {NDJSON: {"schema": {"type": "string"}, "example": lines}}
    return {
        200: {
            "description": "Lines of JSON. `differences` also counts what `repaired` counts.",
            "content": content,
        },
        **problems(*statuses),
    }
