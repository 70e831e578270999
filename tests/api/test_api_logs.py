"""The log of a server."""

import inspect
import subprocess
import sys

from structlog.testing import capture_logs
from uvicorn.protocols.http import h11_impl, httptools_impl

from hornbeam_server.node import logging_setup
from hornbeam_server.node.reads import Reads
from hornbeam_server.schema.errors import Corruption
from tests.api.api_world import world

LOGGED = """
import logging
from hornbeam_server.node import logging_setup as logs
logs.configure()
for text in (logs._CUT, "something else"):
    logging.getLogger("uvicorn.error").error(text)
"""


def test_the_log_hides_the_message_of_an_answer_that_is_cut_on_purpose():
    ended = subprocess.run(
        [sys.executable, "-c", LOGGED], check=True, capture_output=True, text=True
    )
    (line,) = ended.stderr.splitlines()
    assert line.endswith("something else")


def test_corruption_that_a_request_finds_is_logged(tmp_path, monkeypatch):
    def query(*_, **__):
        raise Corruption("A block is damaged.", cure="Restore it.")

    monkeypatch.setattr(Reads, "query", query)
    with world(tmp_path) as server, capture_logs() as logged:
        answer = server.post("/v1/query", {"sql": "SELECT 1"})
    assert answer.status_code == 500
    assert {
        "event": "damage found", "path": "/v1/query", "error": "A block is damaged.",
        "cure": "Restore it.", "log_level": "error",
    } in logged  # fmt: skip


def test_uvicorn_still_uses_the_message_that_the_log_hides():
    for module in (h11_impl, httptools_impl):
        assert logging_setup._CUT in inspect.getsource(module)
