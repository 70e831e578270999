"""Sends spans and metrics to a receiver, and reports once that it does not accept them.

The SDK's variables `OTEL_…` say where to send, how often, and which traces are sampled. Spans wait
in the SDK's queue, which drops what is too much. So a receiver that is slow or down neither delays
nor fails a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import structlog
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric

from hornbeam_server import __version__
from hornbeam_server.api.rest.metrics import Metrics
from hornbeam_server.api.telemetry.metrics import metrics_data
from hornbeam_server.api.telemetry.spans import OtelTracer
from hornbeam_server.node.node import Serving
from hornbeam_server.schema.errors import InvalidRequest

CLOSE_S = 2.0
"""Maximum wait at the end for a receiver to accept the rest."""
_NAME = "hornbeam"
_LOG = structlog.get_logger(__name__)
_LIBRARY = ("opentelemetry.exporter.otlp", "opentelemetry.sdk._shared_internal")
"""Loggers of the SDK that report each failure: `_Acceptance` reports the first one."""


class Telemetry:
    """The traces and metrics of one server. Close it at the end."""

    def __init__(self, address: str) -> None:
        """`address`: that of the server, which distinguishes it from others. Raises InvalidRequest
        for variables that cannot be used."""
        _require_http()
        for name in _LIBRARY:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._interval_s = _interval_s()
        self._resource = _resource(address)
        self._scope = InstrumentationScope(_NAME, __version__)
        self._began = time.time_ns()
        acceptance = _Acceptance()
        # The SDK would wait at the exit of the process for as long as a receiver is slow.
        self._spans = TracerProvider(resource=self._resource, shutdown_on_exit=False)
        self.tracer: OtelTracer | None = None
        if _exports("OTEL_TRACES_EXPORTER"):
            self._spans.add_span_processor(
                BatchSpanProcessor(_Spans(OTLPSpanExporter(), acceptance))
            )
            self.tracer = OtelTracer(self._spans.get_tracer(_NAME, __version__))
        self._metrics = _Metrics(acceptance) if _exports("OTEL_METRICS_EXPORTER") else None

    @contextlib.asynccontextmanager
    async def measuring(self, metrics: Metrics, serving: Serving) -> AsyncIterator[None]:
        """Send the metrics at each interval while the context lasts, and at its end."""
        exporter = self._metrics
        if exporter is None:
            yield
            return

        async def send() -> None:
            families = await metrics.families(serving.database)
            exporter.send(self._data(families))

        async def regularly() -> None:
            while True:
                await asyncio.sleep(self._interval_s)
                await send()

        sending = asyncio.ensure_future(regularly())
        try:
            yield
        finally:
            sending.cancel()
            await send()

    def _data(self, families: Iterable[Metric]) -> Any:
        return metrics_data(families, self._resource, self._scope, self._began, time.time_ns())

    async def close(self) -> None:
        """Send what is left, for `CLOSE_S` at most."""

        def end() -> None:
            self._spans.shutdown()
            if self._metrics is not None:
                self._metrics.close()

        ending = _in_background(end)
        await asyncio.to_thread(ending.join, CLOSE_S)


class _Acceptance:
    """Reports when a receiver begins to refuse, or not to answer, and when that is over."""

    def __init__(self) -> None:
        self._failing = False
        self._lock = threading.Lock()

    def note(self, kind: str, *, accepted: bool) -> None:
        with self._lock:
            changed, self._failing = accepted is self._failing, not accepted
        if not changed:
            return
        if accepted:
            _LOG.info("telemetry is accepted again")
        else:
            _LOG.warning("telemetry is not accepted; what is too much is dropped", kind=kind)


class _Spans(SpanExporter):
    def __init__(self, exporter: SpanExporter, acceptance: _Acceptance) -> None:
        self._exporter = exporter
        self._acceptance = acceptance

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        self._acceptance.note("traces", accepted=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        flushed: bool = self._exporter.force_flush(timeout_millis)
        return flushed


class _Metrics:
    """Sends metrics in a thread, one set at a time. Of the sets that come while another one is on
    its way, the newest is sent."""

    def __init__(self, acceptance: _Acceptance) -> None:
        self._exporter = OTLPMetricExporter()
        self._acceptance = acceptance
        self._changed = threading.Condition()
        self._newest: Any = None
        self._ends = False
        self._sending = _in_background(self._send)

    def send(self, data: Any) -> None:
        with self._changed:
            self._newest = data
            self._changed.notify()

    def _send(self) -> None:
        while (data := self._next()) is not None:
            result = self._exporter.export(data)
            self._acceptance.note("metrics", accepted=result is MetricExportResult.SUCCESS)

    def _next(self) -> Any:
        """The newest set that was not sent; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest is not None or self._ends)
            data, self._newest = self._newest, None
        return data

    def close(self) -> None:
        """Send the newest set."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._sending.join(CLOSE_S)
        self._exporter.shutdown()


def _in_background(work: Callable[[], None]) -> threading.Thread:
    """Begin `work` in a thread for which the process does not wait."""
    thread = threading.Thread(target=work, name="telemetry", daemon=True)
    thread.start()
    return thread


def _resource(address: str) -> Resource:
    """The description of this server. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` come
    first."""
    own = {
        "service.name": _NAME,
        "service.version": __version__,
        "service.instance.id": address,
    }
    return Resource.create(own).merge(OTELResourceDetector().detect())


def _exports(variable: str) -> bool:
    """Is a signal sent? Raises InvalidRequest for an exporter that there is not."""
    value = os.environ.get(variable, "").strip().lower() or "otlp"
    if value not in {"otlp", "none"}:
        raise InvalidRequest(f"{variable} is {value}.", cure="Choose otlp or none.")
    return value == "otlp"


def _require_http() -> None:
    for signal in ("", "TRACES_", "METRICS_"):
        name = f"OTEL_EXPORTER_OTLP_{signal}PROTOCOL"
        value = os.environ.get(name, "").strip().lower()
        if value not in {"", "http/protobuf"}:
            raise InvalidRequest(
                f"{name} is {value}.", cure="Choose http/protobuf, which every collector accepts."
            )


def _interval_s() -> float:
    """Seconds between two exports of metrics."""
    name = "OTEL_METRIC_EXPORT_INTERVAL"
    try:
        seconds = float(os.environ.get(name, "").strip() or "60000") / 1000
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidRequest(f"{name} is not a number of milliseconds.", cure="Correct it.")
    return seconds
