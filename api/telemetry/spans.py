"""The tracer of `storage/tracing.py`, over OpenTelemetry's SDK."""

from __future__ import annotations

import time
from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.storage.tracing import Attributes

_HEADERS = TraceContextTextMapPropagator()
_NOWHERE = Context()
"""The context of OpenTelemetry's own is not used: the current span is that of `tracing`."""


class OtelSpan:
    """A `Span`."""

    def __init__(self, tracer: trace.Tracer, span: trace.Span) -> None:
        self._tracer = tracer
        self._span = span

    @property
    def records(self) -> bool:
        return self._span.is_recording()

    @property
    def traceparent(self) -> str:
        carrier: dict[str, str] = {}
        _HEADERS.inject(carrier, trace.set_span_in_context(self._span, _NOWHERE))
        return carrier.get("traceparent", "")

    def child(self, name: str, attributes: Attributes, *, ago_s: float = 0.0) -> OtelSpan:
        began = time.time_ns() - int(ago_s * 1e9)
        parent = trace.set_span_in_context(self._span, _NOWHERE)
        span = self._tracer.start_span(name, parent, attributes=attributes, start_time=began)
        return OtelSpan(self._tracer, span)

    def note(self, attributes: Attributes, name: str = "") -> None:
        self._span.set_attributes(attributes)
        if name:
            self._span.update_name(name)

    def end(self, error: BaseException | str | None = None) -> None:
        if not self.records:
            return
        if error is not None:
            kind = _kind(error)
            self._span.set_attribute("error.type", kind)
            self._span.set_status(Status(StatusCode.ERROR, kind))
        self._span.end()


class OtelTracer:
    """A `Tracer`."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def begin(self, name: str, attributes: Attributes, headers: Mapping[str, str]) -> OtelSpan:
        parent = _HEADERS.extract(headers, _NOWHERE)
        span = self._tracer.start_span(name, parent, SpanKind.SERVER, attributes)
        return OtelSpan(self._tracer, span)


def _kind(error: BaseException | str) -> str:
    match error:
        case str():
            return error
        case HornbeamError():
            return error.code
    return type(error).__name__
