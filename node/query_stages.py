"""Queries of a node in their stages: as they are asked, planned, and answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hornbeam_server.node.deferred_views import Freshness
from hornbeam_server.node.live.ahead import Ahead, Tentative
from hornbeam_server.query.binding.binder import OutputColumn
from hornbeam_server.query.engine import PreparedQuery, QueryStream
from hornbeam_server.query.system.asking import ADMINISTRATOR, Asker
from hornbeam_server.query.system.parts import showing
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.ports import TableReader
from hornbeam_server.storage.read_ranges import ReadRange
from hornbeam_server.storage.snapshot import ReadItem
from hornbeam_server.txlayer.statements.identity_columns import Numbers
from hornbeam_server.txlayer.statements.requests import Parameters, Replay, SqlWork
from hornbeam_server.txlayer.transactions.numbered_queries import NumberedQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answered query. `served_by` names the relations, views and indexes that it reads at
    `snapshot`; `reads` collects the row versions that it reads, None without a trace; `ranges` the
    ranges of keys, None unless it is serializable."""

    snapshot: int
    served_by: tuple[str, ...]
    reads: list[ReadItem] | None = None
    ranges: list[ReadRange] | None = None
    drawn: Mapping[str, int] = field(default_factory=dict)
    """The last numbers of sequences that the query has taken so far, by name."""
    tentative: Tentative | None = None
    """What a tentative answer says about its snapshot; None: the answer is not tentative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult(Answered):
    """A running query."""

    stream: QueryStream


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectResult(Answered):
    """The rows of a direct read, with their columns."""

    columns: tuple[OutputColumn, ...]
    rows: list[Row]
    rows_read: int
    """The rows that came from the store."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request says about its query (`Reads.query`)."""

    sql: str
    bookmark: int
    snapshot: int | None
    strong: bool
    tentative: bool
    pending: bool
    trace: bool
    use_views: bool
    columnar: bool
    fresh: Freshness
    deadline: float
    numbers: Numbers
    shown: frozenset[str] | None
    began: float = 0.0
    """The time of the clock at which the query began."""
    max_rows: int | None = None
    asker: Asker = ADMINISTRATOR

    def under(self, catalog: Catalog) -> Catalog:
        """The catalog that shows the query what it may know."""
        return catalog if self.shown is None else showing(catalog, self.shown)

    @property
    def may_be_stale(self) -> bool:
        """May deferred views answer although the query does not name them?"""
        now = self.strong or self.tentative or self.pending or self.trace
        now = now or self.snapshot is not None
        return self.fresh.max_staleness_s is not None and self.use_views and not now


@dataclass(frozen=True, slots=True)
class Pending:
    """The statements that the transaction of a query has sent, which are run until `deadline`."""

    statements: Sequence[SqlWork]
    replay: Replay | None
    deadline: float


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with its parameters, and the snapshot at which it reads. `ahead`: the rows there of
    the live and deferred views that it names; None: they are stored."""

    query: PreparedQuery | NumberedQuery
    parameters: Parameters
    at: int
    ahead: Ahead | None = None
    reason: str = ""
    """Why a tentative query reads the views as they are stored."""

    @property
    def as_of(self) -> int:
        """The snapshot at which the views are stored that the query names."""
        return self.at if self.ahead is None else self.ahead.as_of

    def over(self, store: TableReader) -> TableReader:
        """`store`, with the rows of the views at `at`."""
        return store if self.ahead is None else self.ahead.over(store)
