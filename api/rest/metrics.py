"""Prometheus metrics, one registry per application."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

from hornbeam_server.node.database import Database
from hornbeam_server.node.deferred_views import GroupStatus
from hornbeam_server.node.live.lags import BOUNDS_S, Lags
from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.local.system import SystemClock
from hornbeam_server.txlayer.cluster.member import Member
from hornbeam_server.txlayer.statements.requests import TransactionResult

now_s = SystemClock().monotonic
"""Seconds of a clock for the durations of requests. The clock of the event loop would stand still
during a request that does not wait."""
Observed = Callable[[float], None]
_METHODS = {"GET", "POST", "DELETE", "HEAD", "OPTIONS"}
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


_TOTALS = {
    "transactions_committed": "Transactions committed.",
    "transactions_aborted": "Attempts aborted.",
    "transactions_retried": "Attempts repeated.",
    "tentative_queries": "Tentative queries whose live and deferred views were computed.",
    "tentative_queries_as_stored": "Tentative queries whose views were read as they are stored.",
}
"""Totals, which only grow during a term; the next term of a node counts from 0."""


class _Totals(Collector):
    """Counters whose values the database keeps."""

    def __init__(self) -> None:
        self.values = dict.fromkeys(_TOTALS, 0)

    def collect(self) -> Iterator[Metric]:
        for name, help_ in _TOTALS.items():
            yield CounterMetricFamily(f"hornbeam_{name}", help_, value=self.values[name])


class _CommitLags(Collector):
    """The histograms of the batches that this node has done, which the maintainer keeps."""

    def __init__(self) -> None:
        self.lags: Mapping[str, Lags] = {}

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(
            "hornbeam_deferred_commit_lag_seconds",
            "Time from the oldest commit of a batch until queries read the batch's rows.",
            labels=["group"],
        )
        for group, lags in self.lags.items():
            sums = accumulate(lags.counts)
            bounds = (*map(str, BOUNDS_S), "+Inf")
            family.add_metric([group], list(zip(bounds, sums, strict=True)), lags.sum_s)
        yield family


class Metrics:
    """Histograms, observed at every request, and gauges, read at every scrape."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._totals = _Totals()
        self._registry.register(self._totals)
        self._transaction = Histogram(
            "hornbeam_transaction_seconds",
            "Time in a transaction, by part.",
            ["part"],
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._query = Histogram(
            "hornbeam_query_seconds",
            "Time to answer a query.",
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._requests = Histogram(
            "hornbeam_request_seconds",
            "Time of requests, the whole answer sent, by route and status (0: cut short).",
            ["method", "route", "status"],
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._gauges = {
            name: Gauge(f"hornbeam_{name}", help_, registry=self._registry)
            for name, help_ in {
                "locks_held": "Locks held now.",
                "locks_waiting": "Transactions waiting for a lock now.",
                "log_bytes": "Bytes in the log; NaN while it does not answer.",
                "watermark_lag_seconds": "Age of the default snapshot.",
                "views_not_readable": "Views that queries cannot use now.",
                "subscriptions": "Subscriptions to changes that are open now.",
                "slots": "Slots of locks that this node owns; NaN of a database in a folder.",
                "slots_work_per_minute": "Locks granted in them, and rows applied to their views;"
                " NaN: not measured yet.",
                "hottest_slot_work_per_minute": "In that with most of them.",
                "ready": "1 if requests may be sent here.",
            }.items()
        }
        self._groups = {
            name: Gauge(f"hornbeam_deferred_{name}", help_, ["group"], registry=self._registry)
            for name, help_ in {
                "lag_seconds": "Age of the snapshot of live and deferred views; NaN: never built.",
                "stopped": "1 if the nodes cannot do the group's next batch.",
                "left": "1 if the nodes leave the group's next batch to Spark.",
                "mine": "1 if this node does the group's next batch.",
            }.items()
        }
        self._commit_lags = _CommitLags()
        self._registry.register(self._commit_lags)

    def request(self, scope: Scope, status: int, seconds: float) -> None:
        """Observe a request that took `seconds`. Requests that match no route share one label."""
        self.requests(scope.get("route"), scope["method"], status)(seconds)

    def requests(self, route: Any, method: str, status: int) -> Observed:
        """The function that observes the seconds of a request by route, method and status."""
        path = getattr(route, "path_format", "none")
        given = method if method in _METHODS else "other"
        observed: Observed = self._requests.labels(given, path, str(status)).observe
        return observed

    def transaction(self, result: TransactionResult) -> None:
        for part in ("plan", "lock", "log", "apply"):
            milliseconds = getattr(result.timings, f"{part}_ms")
            self._transaction.labels(part).observe(milliseconds / 1000)

    def query(self, seconds: float) -> None:
        self._query.observe(seconds)

    async def render(self, db: Database | None) -> tuple[bytes, str]:
        """The text of all metrics and its media type."""
        await self._read(db)
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    async def families(self, db: Database | None) -> list[Metric]:
        """All metrics with their values."""
        await self._read(db)
        return list(self._registry.collect())

    async def _read(self, db: Database | None) -> None:
        """Set the values that the database keeps. Without one (the node stands by) `ready` is 0,
        the totals are the last known ones, and all other gauges are NaN."""
        if db is not None:
            self._totals.values = _totals(db)
        values = dict.fromkeys(self._gauges, math.nan) | {"ready": 0}
        for name, value in (values if db is None else await _values(db)).items():
            self._gauges[name].set(value)
        for gauge in self._groups.values():
            gauge.clear()
        for group, shown in (await _groups(db)).items():
            for name, value in shown.items():
                self._groups[name].labels(group).set(value)
        self._commit_lags.lags = {} if db is None else db.live.lags


def _totals(db: Database) -> dict[str, int]:
    manager = db.manager
    return {
        "transactions_committed": manager.committed,
        "transactions_aborted": manager.aborted,
        "transactions_retried": manager.retried,
        "tentative_queries": db.reads.tentative_computed,
        "tentative_queries_as_stored": db.reads.tentative_as_stored,
    }


async def _values(db: Database) -> dict[str, float]:
    """The values of the gauges."""
    catalog = db.catalog
    return {
        "locks_held": db.locks.held_count,
        "locks_waiting": db.locks.waiting_count,
        "log_bytes": await _log_bytes(db),
        "watermark_lag_seconds": db.lag_s(),
        "views_not_readable": sum(not catalog.readable(name) for name in catalog.all_views),
        "subscriptions": db.subscriptions.count,
        "ready": int(db.ready()),
        **_slots(db.member),
    }


async def _groups(db: Database | None) -> dict[str, dict[str, float]]:
    """The gauges of each group; none while the coordination service does not answer."""
    try:
        statuses = [] if db is None else await db.deferred.status()
        return {status.name: await _group(db, status) for status in statuses if db is not None}
    except Unavailable:
        return {}


async def _group(db: Database, status: GroupStatus) -> dict[str, float]:
    left = await db.live.left(status)
    return {
        "lag_seconds": math.nan if status.lag_s is None else status.lag_s,
        "stopped": int(status.state.problem is not None and not left),
        "left": int(bool(left)),
        "mine": int(not left and db.live.does_batch(status.name)),
    }


def _slots(member: Member | None) -> dict[str, float]:
    """The number of slots that this node owns, and the rates of work in them."""
    rates = None if member is None else member.rates.newest()
    return {
        "slots": math.nan if member is None else member.slots,
        "slots_work_per_minute": math.nan if rates is None else sum(rates.values()),
        "hottest_slot_work_per_minute": (
            math.nan if rates is None else max(rates.values(), default=0)
        ),
    }


async def _log_bytes(db: Database) -> float:
    """The bytes in the log; NaN while the log fails, because the other metrics are needed most
    then."""
    try:
        return sum(segment.bytes for segment in await db.log.segments())
    except Unavailable:
        return math.nan
