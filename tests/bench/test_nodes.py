"""Waiting for nodes that benchmarks and demos run."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from bench.nodes import NodeProcess, NodeProcesses
from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.txlayer.cluster.assignment import SLOTS

KNOWN = {
    "leads": True,
    "members": [{"slots": SLOTS}],
    "dead": [],
    "moving_slots": 0,
}


@pytest.fixture
def node(tmp_path):
    """A node that is ready. Its status is answered with each of `node.statuses` in turn."""
    statuses = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status = 200 if self.path == "/readyz" else statuses.pop(0)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps({"nodes": KNOWN}).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        found = NodeProcess("node1", server.server_port, tmp_path / "log", {})
        found.process = SimpleNamespace(poll=lambda: None)
        found.statuses = statuses
        yield found
        server.shutdown()
        serving.join()


@pytest.mark.parametrize("wait", [NodeProcesses.leading, NodeProcesses.settled])
def test_a_node_that_stops_serving_behind_readiness_is_waited_for(node, tmp_path, wait):
    node.statuses += [503, 503, 200]
    wait(NodeProcesses(None, tmp_path, 1, nodes=[node]))
    assert node.statuses == []


def test_the_wait_for_a_leader_ends(node, tmp_path):
    node.statuses += [503] * 1000
    with pytest.raises(Unavailable, match="No node leads"):
        NodeProcesses(None, tmp_path, 1, nodes=[node]).leading(0.1)
