"""A receiver of OpenTelemetry's protocol, over HTTP with protobufs, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

FAILED = 2
"""The code of a span's status that says that it failed."""


class ReceivedSpan:
    """A span as the receiver has it."""

    def __init__(self, span: Any, resource: dict[str, Any]) -> None:
        self.name: str = span.name
        self.trace, self.id, self.parent = (
            each.hex() for each in (span.trace_id, span.span_id, span.parent_span_id)
        )
        self.attributes = _values(span.attributes)
        self.failed = span.status.code == FAILED
        self.message: str = span.status.message
        self.begin, self.end = span.start_time_unix_nano, span.end_time_unix_nano
        self.events = len(span.events)
        self.resource = resource


class Receiver:
    """`status`: of its answers. `let`: it answers once this event is set."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.metrics: dict[str, Any] = {}
        """The newest metrics by name."""
        self.status = 200
        self.asked = 0
        self.let = threading.Event()
        self.let.set()
        self.changed = threading.Condition()

    def take(self, path: str, body: bytes) -> None:
        with self.changed:
            if path == "/v1/traces":
                for each in ExportTraceServiceRequest.FromString(body).resource_spans:
                    resource = _values(each.resource.attributes)
                    spans = [span for scope in each.scope_spans for span in scope.spans]
                    self.spans += [ReceivedSpan(span, resource) for span in spans]
            else:
                assert path == "/v1/metrics"
                for each in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for scope in each.scope_metrics:
                        self.metrics |= {metric.name: metric for metric in scope.metrics}
            self.changed.notify_all()

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]


def _values(attributes: list[KeyValue]) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: AnyValue) -> Any:
    return getattr(value, value.WhichOneof("value"))


@contextmanager
def receiving() -> Iterator[tuple[Receiver, str]]:
    """A receiver and its URL."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.asked += 1
            receiver.let.wait(30)
            if receiver.status == 200:
                receiver.take(self.path, body)
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A sender that has gone is no fault of the receiver."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield receiver, f"http://127.0.0.1:{server.server_port}"
        finally:
            receiver.let.set()
            server.shutdown()
            thread.join()
