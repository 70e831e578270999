"""The settings of HBase that the store over Thrift 1 needs. It reads them from the web pages of the
region servers: here from servers of the test."""

import json
import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from hornbeam_server.schema.errors import InvalidRequest, Unavailable
from hornbeam_server.storage.hbase.calls import Calls
from hornbeam_server.storage.hbase.servers import Region
from hornbeam_server.storage.hbase.thrift1 import promises as promises_module
from hornbeam_server.storage.hbase.thrift1.kind import THRIFT_1
from hornbeam_server.storage.hbase.thrift1.promises import VOUCHED, Promises, broken

DAY_MS = 24 * 3_600_000
KEPT = {"hbase.wal.hsync": "true", "hbase.hstore.time.to.purge.deletes": str(DAY_MS)}
NOT_FORCED = KEPT | {"hbase.wal.hsync": "false"}


def page(settings):
    listed = [{"key": key, "value": value, "isFinal": False} for key, value in settings.items()]
    return json.dumps({"properties": listed}).encode()


@contextmanager
def serving(answer, status=200):
    """A region server's web page with this answer; yields its port and the paths requested."""
    asked = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01))
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def served_by(monkeypatch):
    """The start codes of the region servers, at one host, that serve the tables."""
    codes = [b"code-1"]

    async def regions(calls, tables):
        tables = {"t"} if tables is None else tables
        return [
            Region(table.encode(), b"\0", code and b"127.0.0.1:16020," + code)
            for table in sorted(tables)
            for code in codes
        ]

    monkeypatch.setattr(promises_module.servers, "regions", regions)
    return codes


@contextmanager
def promises(port, timeout_s=5.0):
    calls = Calls([("127.0.0.1", 1)], "n", timeout_s, THRIFT_1)
    yield Promises(calls, port)
    calls.refuse()


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({}, ""),
        ({"hbase.wal.hsync": " TRUE "}, ""),
        ({"hbase.hstore.time.to.purge.deletes": str(DAY_MS * 2)}, ""),
        ({"hbase.wal.hsync": "false"}, "hbase.wal.hsync is false, not true"),
        (
            {"hbase.hstore.time.to.purge.deletes": "0"},
            "hbase.hstore.time.to.purge.deletes is 0, not 86400000 or more",
        ),
        ({"hbase.hstore.time.to.purge.deletes": "1d"}, "is 1d, not 86400000"),
    ],
)
def test_settings_that_break_a_promise_are_named(change, reported):
    assert broken(KEPT) == ""
    assert reported in broken(KEPT | change)
    assert bool(broken(KEPT | change)) == bool(reported)


def test_settings_that_are_missing_break_both_promises():
    assert broken({}).count("not set") == 2


async def test_each_region_server_is_asked_once_and_again_when_it_was_started_again(served_by):
    with serving(page(KEPT)) as (port, asked), promises(port) as made:
        for _ in range(2):
            await made.before_puts({"t"})
            made.unflushed = {"t"}
            await made.flush()
        await made.before_puts({"u"})
        assert asked == ["/conf?format=json"]
        served_by[:] = [b"code-1", b"code-2"]
        await made.flush()
        assert len(asked) == 1  # nothing was written
        made.unflushed = {"t"}
        await made.flush()
        assert len(asked) == 2
        assert made.unflushed == set()


async def test_a_server_that_does_not_keep_the_promises_is_a_wrong_setting_at_the_start(served_by):
    """A node creates the system's tables when it starts."""
    with serving(page(NOT_FORCED)) as (port, _), promises(port) as made:
        for _ in range(2):
            with pytest.raises(InvalidRequest, match=r"127\.0\.0\.1.*hsync is false") as refused:
                await made.of_created("u")
        assert "hbase-site.xml of all region servers" in refused.value.cure


async def test_without_a_server_that_comes_later_and_is_not_set_up_the_store_goes_on(served_by):
    """Flushes fail, so the log keeps what a power cut may take from HBase."""
    with (
        serving(page(KEPT)) as (first, _),
        serving(page(NOT_FORCED)) as (later, _),
        promises(first) as made,
    ):
        await made.of_created("t")
        served_by.append(b"code-2")
        made._port, made.unflushed = later, {"t"}
        await made.before_puts({"t"})
        for _ in range(2):
            for fails in (
                made.flush,
                partial(made.before_puts, {"u"}),
                partial(made.of_created, "v"),
            ):
                with pytest.raises(Unavailable, match="hsync is false"):
                    await fails()
        assert made.unflushed == {"t"}
        made._port = first
        await made.flush()
        assert made.unflushed == set()


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (b"", 403, "answers 403"),
        (b"<html>", 200, "is not the configuration of HBase"),
        (b"[1]", 200, "is not the configuration of HBase"),
    ],
)
async def test_a_page_that_cannot_be_understood_is_reported_with_a_cure(
    served_by, answer, status, words
):
    with serving(answer, status) as (port, _), promises(port) as made:
        with pytest.raises(Unavailable, match=words) as reported:
            await made.before_puts({"t"})
        assert "region_server_page_port" in reported.value.cure


async def test_a_page_that_cannot_be_reached_is_reported(served_by):
    with serving(b"") as (port, _):
        pass
    with promises(port) as made, pytest.raises(Unavailable, match="cannot be read"):
        await made.before_puts({"t"})


async def test_an_operator_may_vouch_for_the_promises(served_by):
    with promises(VOUCHED) as made:
        made.unflushed = {"t"}
        await made.before_puts({"t"})
        await made.flush()
        assert made.unflushed == set()


async def test_a_region_that_moves_is_awaited_until_the_deadline(served_by):
    served_by[:] = [None]
    with (
        serving(page(KEPT)) as (port, _),
        promises(port, timeout_s=0.1) as made,
        pytest.raises(Unavailable, match="regions are moving"),
    ):
        await made.before_puts({"t"})
