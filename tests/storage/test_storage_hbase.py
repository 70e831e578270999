"""The parts of the HBase adapter that need no HBase: names, keys, values, ranges, and servers that
are no gateways."""

import asyncio
import gc
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.protocol.cybin import ProtocolError
from thriftpy2.thrift import TMessageType

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.hbase import messages, names, ranges
from hornbeam_server.storage.hbase.answers import FUNCTION, Unfamiliar, cells_gotten
from hornbeam_server.storage.hbase.calls import THREADS
from hornbeam_server.storage.hbase.cells import (
    is_signed,
    key_of,
    signed,
    stored_key,
    stored_value,
    value_of,
)
from hornbeam_server.storage.hbase.found import STORED, Found
from hornbeam_server.storage.hbase.gateways import CallFailed, Gateways
from hornbeam_server.storage.hbase.interface import THRIFT
from hornbeam_server.storage.hbase.messages import (
    Client,
    Incomplete,
    answer_to,
    call_of_gets,
    call_of_puts,
    call_of_scan,
)
from hornbeam_server.storage.hbase.store import HBaseStore
from hornbeam_server.storage.hbase.tables import definition, difference
from hornbeam_server.storage.ports import NEWEST, Cell
from tests.storage.hbase_gateways import TWO, Listener

KEYS = st.lists(st.sampled_from([0, 1, 0x61, 0xFE, 0xFF]), max_size=5).map(bytes)


@given(st.text() | st.text("-_.aB5", max_size=6))
def test_stored_names_are_valid_in_hbase_and_decode_to_themselves(name):
    stored = names.encode(name)
    assert re.fullmatch(rb"[A-Za-z0-9_][A-Za-z0-9_.-]*", stored)
    assert names.decode(stored) == name


def test_ordinary_names_are_stored_unchanged():
    for name in ("order_line", "s.outcomes", "Customer2"):
        assert names.encode(name) == name.encode()


@given(st.lists(KEYS))
def test_stored_keys_are_not_empty_keep_their_order_and_decode_to_themselves(keys):
    stored = [stored_key(key) for key in keys]
    assert all(stored)
    assert [key_of(key) for key in stored] == keys
    assert [key_of(key) for key in sorted(stored)] == sorted(keys)


@given(KEYS)
def test_stored_values_are_not_empty_and_decode_to_themselves_signed_or_not(value):
    stored = stored_value(value)
    assert stored
    assert value_of(stored) == value
    assert not is_signed(stored)
    first, second = signed(value), signed(value)
    assert value_of(first) == value_of(second) == value
    assert is_signed(first)
    assert first != second


@given(st.lists(KEYS), st.lists(KEYS), KEYS)
def test_ranges_of_prefixes_contain_exactly_the_keys_under_them(prefixes, keys, last):
    found = ranges.of_prefixes(prefixes)

    def held(parts):
        stored = map(stored_key, keys)
        return [
            key
            for key in stored
            if any(p.start <= key and (not p.end or key < p.end) for p in parts)
        ]

    under = [stored_key(key) for key in keys if key.startswith(tuple(prefixes))]
    assert held(found) == under
    assert all(a.end and a.end <= b.start for a, b in pairwise(found))
    rest = ranges.behind(found, stored_key(last))
    assert held(rest) == [key for key in under if key > stored_key(last)]


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"timeToLive": 3600}, "timeToLive is 3600, not 2147483647"),
        ({"maxVersions": 1}, "maxVersions is 1"),
        ({"configuration": None}, "hbase.hstore.time.to.purge.deletes is not set"),
        ({"name": b"cf"}, "its families are cf, not d"),
    ],
)
def test_differences_of_a_table_definition_are_reported(change, reported):
    found = definition(THRIFT.TTableName(ns=b"n", qualifier=b"t"))
    assert difference(found) == ""
    for name, value in change.items():
        setattr(found.columns[0], name, value)
    assert reported in difference(found)
    found = definition(None)
    found.durability = THRIFT.TDurability.ASYNC_WAL
    assert "durability is ASYNC_WAL" in difference(found)


# ---------------------------------------------------------------- calls and answers as bytes


def call_of(function, **arguments):
    """A call as thriftpy2 sends it."""
    sent = bytearray()
    Client(SimpleNamespace(write=sent.extend, flush=lambda: None))._send(function, **arguments)
    return bytes(sent)


@given(st.lists(st.tuples(KEYS, st.binary(), st.integers(0, NEWEST))), st.booleans())
def test_a_call_to_put_rows_equals_that_of_thriftpy2(versions, forced):
    durability = {"durability": THRIFT.TDurability.FSYNC_WAL} if forced else {}
    puts = [
        THRIFT.TPut(
            row=row,
            columnValues=[THRIFT.TColumnValue(family=b"d", qualifier=b"r", value=value)],
            timestamp=ts,
            **durability,
        )
        for row, value, ts in versions
    ]
    if len(puts) == 1:
        expected = ("put", call_of("put", table=b"n:t", tput=puts[0]))
    else:
        expected = ("putMultiple", call_of("putMultiple", table=b"n:t", tputs=puts))
    assert call_of_puts(b"n:t", versions, forced=forced) == expected


@given(st.lists(KEYS), st.integers(0, NEWEST))
def test_a_call_to_get_rows_equals_that_of_thriftpy2(rows, behind):
    gets = [
        THRIFT.TGet(
            row=row,
            columns=[THRIFT.TColumn(family=b"d", qualifier=b"r")],
            timeRange=THRIFT.TTimeRange(minStamp=0, maxStamp=behind),
            maxVersions=1,
        )
        for row in rows
    ]
    if len(gets) == 1:
        expected = ("get", call_of("get", table=b"n:t", tget=gets[0]))
    else:
        expected = ("getMultiple", call_of("getMultiple", table=b"n:t", tgets=gets))
    assert call_of_gets(b"n:t", rows, behind) == expected


def test_an_answer_is_incomplete_until_its_last_byte():
    assert answer_to("getThriftServerType", TWO) == THRIFT.TThriftServerType.TWO
    for size in range(len(TWO)):
        with pytest.raises(Incomplete):
            answer_to("getThriftServerType", TWO[:size])


# ---------------------------------------------------------------- rows in answers


def answer_of(function, **reported):
    """An answer as a gateway writes it."""
    written = bytearray()
    client = Client(SimpleNamespace(write=written.extend, flush=lambda: None))
    protocol = client._oprot
    protocol.write_message_begin(function, TMessageType.REPLY, 0)
    getattr(THRIFT.THBaseService, f"{function}_result")(**reported).write(protocol)
    protocol.write_message_end()
    protocol.trans.flush()
    return bytes(written)


def scan_answer(*rows):
    return answer_of(FUNCTION, success=list(rows))


def row_of(key, value=b"v", ts=7, **more):
    column = {"family": b"d", "qualifier": b"r", "value": value, "timestamp": ts, "type": 4} | more
    return THRIFT.TResult(row=key, columnValues=[THRIFT.TColumnValue(**column)])


def scanned(answer, size):
    """The cells that a client reads from an answer in pieces, and whether thriftpy2 has decoded
    it."""
    pieces = [answer[i : i + size] for i in range(0, len(answer), size)]

    class Stream:
        received = b""

        def read(self, most):
            data, self.received = self.received[:most], self.received[most:]
            return data or pieces.pop(0)

        def write(self, data): ...

        def flush(self): ...

    class Watched(Client):
        asked = False

        def _recv(self, name):
            self.asked = True
            return super()._recv(name)

    client = Watched(Stream())
    scan = ranges.scan([ranges.stored_range(b"", None)], 9)
    found = client.scanned(b"t", scan, 9, STORED)
    assert not pieces
    return found.rows, client.asked


PARTS = st.binary(max_size=9) | st.sampled_from([scan_answer(row_of(b"k"))[-30:], b"\0" * 40])


@given(st.lists(st.tuples(PARTS, PARTS, st.integers(0, NEWEST))), st.integers(1, 400))
def test_rows_of_a_scan_answer_are_found_in_pieces_of_any_size(rows, size):
    cells, by_thriftpy2 = scanned(scan_answer(*(row_of(k, v, ts) for k, v, ts in rows)), size)
    assert cells == [Cell(key, ts, value) for key, value, ts in rows]
    assert not by_thriftpy2 or size < 60  # a piece of the head may look like another answer


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 7, 1_000])
@pytest.mark.parametrize(
    "other",
    [
        row_of(b"k", tags=b"some"),
        row_of(b"k", type=None),
        row_of(b"k", type=14),
        row_of(b"k", family=b"other"),
        THRIFT.TResult(row=b"k", columnValues=[], partial=True),
    ],
)
def test_unfamiliar_answers_are_decoded_by_thriftpy2(place, size, other):
    rows = [row_of(b"a"), row_of(b"b")]
    rows.insert(place, other)
    cells, by_thriftpy2 = scanned(scan_answer(*rows), size)
    assert by_thriftpy2
    columns = [(row.row, column) for row in rows for column in row.columnValues]
    assert cells == [Cell(key, column.timestamp, column.value) for key, column in columns]


def test_a_row_without_a_key_is_refused_as_damage():
    answer = scan_answer(row_of(b"a"), THRIFT.TResult(columnValues=row_of(b"").columnValues))
    with pytest.raises(ProtocolError, match="no key"):
        scanned(answer, 1_000)
    with pytest.raises(ProtocolError, match="no key"):
        answer_to(FUNCTION, answer)


@given(st.lists(st.tuples(PARTS, PARTS, st.integers(0, NEWEST))))
def test_the_event_loop_reads_scan_answers_as_a_thread_does(rows):
    answer = scan_answer(*(row_of(k, v, ts) for k, v, ts in rows))
    assert answer_to(FUNCTION, answer) == [Cell(key, ts, value) for key, value, ts in rows]
    for size in range(len(answer)):
        with pytest.raises(Incomplete):
            answer_to(FUNCTION, answer[:size])
    other = scan_answer(row_of(b"a"), row_of(b"k", tags=b"some"))
    assert answer_to(FUNCTION, other) == [Cell(b"a", 7, b"v"), Cell(b"k", 7, b"v")]


def test_a_scan_is_encoded_as_thriftpy2_sends_it():
    scan = ranges.scan(ranges.of_prefixes([b"a", b"b"]), 5, timeRange=ranges.time_range(0, 9))
    expected = call_of(FUNCTION, table=b"n:t", tscan=scan, numRows=5)
    assert call_of_scan(b"n:t", scan, 5) == (FUNCTION, expected)


def gotten(cell):
    """A row of an answer to gets, as a gateway writes it."""
    return (
        THRIFT.TResult(columnValues=[]) if cell is None else row_of(cell.key, cell.value, cell.ts)
    )


FOUND = st.none() | st.builds(Cell, PARTS, st.integers(0, NEWEST), PARTS)


@given(st.lists(FOUND), FOUND, st.data())
def test_rows_of_answers_to_gets_are_found(cells, one, data):
    answers = {
        "getMultiple": (answer_of("getMultiple", success=[gotten(c) for c in cells]), cells),
        "get": (answer_of("get", success=gotten(one)), [one]),
    }
    for function, (answer, found) in answers.items():
        assert cells_gotten(answer) == answer_to(function, answer) == found
        with pytest.raises(Unfamiliar):
            cells_gotten(answer[: data.draw(st.integers(0, len(answer) - 1))])


@pytest.mark.parametrize("other", [row_of(b"k", tags=b"some"), row_of(b"k", type=None)])
def test_unfamiliar_answers_to_gets_are_decoded_by_thriftpy2(other):
    reported = answer_of(
        "getMultiple", success=[row_of(b"a"), other, THRIFT.TResult(columnValues=[])]
    )
    with pytest.raises(Unfamiliar):
        cells_gotten(reported)
    assert answer_to("getMultiple", reported) == [Cell(b"a", 7, b"v"), Cell(b"k", 7, b"v"), None]
    assert answer_to("get", answer_of("get", success=other)) == [Cell(b"k", 7, b"v")]


@pytest.mark.parametrize("function", ["get", "getMultiple", "put", "putMultiple"])
def test_an_error_in_an_answer_is_raised(function):
    with pytest.raises(THRIFT.TIOError):
        answer_to(function, answer_of(function, io=THRIFT.TIOError(message="no")))


@pytest.mark.parametrize("function", ["put", "putMultiple"])
def test_an_empty_answer_is_recognised_by_its_bytes(function, monkeypatch):
    monkeypatch.setattr(messages, "Client", None)
    assert answer_to(function, answer_of(function)) is None


def test_a_refused_scan_raises_the_error_of_hbase():
    message = bytes.fromhex("80010002 00000011") + FUNCTION.encode() + bytes(4)
    message += bytes.fromhex("0c 0001 0b 0001 00000002") + b"no" + bytes.fromhex("00 00")
    for size in (1, 7, 1_000):
        with pytest.raises(THRIFT.TIOError):
            scanned(message, size)


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_an_answer_that_goes_on_behind_its_rows_is_read_to_the_end(size):
    answer = scan_answer(row_of(b"k"))[:-1] + bytes.fromhex("0c 0001 00 00")
    assert scanned(answer, size) == ([Cell(b"k", 7, b"v")], True)


@pytest.mark.parametrize(("taken", "read"), [(1, 1), (2, 3), (3, 4)])
async def test_a_scan_reads_ahead_from_its_second_batch_on(taken, read):
    """Batches that no reader takes do not keep the store from closing."""
    begun, ahead = [], threading.Event()

    def rows(form, table, part, count, at):
        begun.append(part.start)
        if len(begun) == read:
            ahead.set()
        cells = [Cell(b"%d %06d" % (len(begun), i), 1, b"v") for i in range(count)]
        return Found.of(cells, form), count

    store = HBaseStore([("127.0.0.1", 1)])
    store._reads._first_rows = rows
    scan = store.scan("t", b"", None, 5)
    for number in range(taken):
        assert (await anext(scan))[0].key == b"%d 000000" % (number + 1)
    assert await asyncio.to_thread(ahead.wait, 10)
    await scan.aclose()
    await store.close()
    assert len(begun) == read


@pytest.mark.parametrize("wanted", [True, False])
def test_an_error_in_reading_ahead_is_raised_only_to_the_reader_of_that_batch(wanted):
    failed, reported = threading.Event(), []

    def rows(form, table, part, count, at):
        if part.start > b"k":
            failed.set()
            raise Unavailable("gone")
        letter = 97 + (count > 256) * 10
        cells = [Cell(b"%c%06d" % (letter, i), 1, b"v") for i in range(count)]
        return Found.of(cells, form), count

    async def scenario():
        store = HBaseStore([("127.0.0.1", 1)])
        store._reads._first_rows = rows
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: reported.append(context)
        )
        scan = store.scan("t", b"", None, 5)
        await anext(scan)
        await anext(scan)
        await asyncio.to_thread(failed.wait, 10)
        if wanted:
            with pytest.raises(Unavailable):
                await anext(scan)
        await store.close()
        await scan.aclose()
        del scan
        gc.collect()

    asyncio.run(scenario())
    assert not reported


# ---------------------------------------------------------------- no gateway, failing gateways


def refusal(address, timeout_s=5.0):
    """The error of a read through the gateway at `address`: its message is one line."""

    async def scenario():
        store = HBaseStore([address], timeout_s=timeout_s)
        with pytest.raises(Unavailable) as caught:
            await store.get("t", [b"k"], 1)
        await store.close()
        return caught.value

    error = asyncio.run(scenario())
    assert "\n" not in error.message
    return error


def test_an_address_without_listener_is_reported():
    with Listener(lambda connection: None) as gone:
        pass
    error = refusal(gone.address)
    assert f"{gone.address} refuses connections" in error.message
    assert error.cure


def answering(*answers):
    """A server that gives these answers one after the other on each connection, whatever is
    asked."""

    def handle(connection):
        for answer in answers:
            if not connection.recv(1 << 16):
                return
            connection.sendall(answer)
        while connection.recv(1 << 16):
            pass

    return Listener(handle)


def test_a_web_server_is_no_gateway():
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        assert "speaks something else" in refusal(server.address).message


def test_thrift_1_is_recognised():
    with answering(TWO.replace(b"\0\0\0\2\0", b"\0\0\0\1\0")) as server:
        assert "serves Thrift 1, not Thrift 2" in refusal(server.address).message


def test_a_gateway_that_does_not_know_the_question_is_too_old():
    unknown = bytes.fromhex("80010003 00000013") + b"getThriftServerType" + bytes(4)
    unknown += bytes.fromhex("0b 0001 00000007") + b"unknown" + bytes.fromhex("08 0002 00000001 00")
    with answering(unknown) as server:
        assert "too old" in refusal(server.address).message


def test_a_silent_gateway_is_given_up_at_the_deadline():
    for answers in ((), (TWO,)):
        with answering(*answers) as server:
            began = time.monotonic()
            assert "does not answer in time" in refusal(server.address, timeout_s=0.5).message
            assert time.monotonic() - began < 1.5


def test_a_gateway_that_answers_byte_by_byte_is_given_up_at_the_deadline():
    def handle(connection):
        connection.recv(1 << 16)
        connection.sendall(TWO)
        connection.recv(1 << 16)
        for byte in bytes.fromhex("80010002 00001000") + b"x" * 4_000:
            connection.sendall(bytes([byte]))
            time.sleep(0.01)

    with Listener(handle) as server:
        began = time.monotonic()
        refusal(server.address, timeout_s=0.5)
        assert time.monotonic() - began < 1.5


async def test_calls_without_a_free_connection_end_at_the_deadline():
    with answering(TWO) as server:
        store = HBaseStore([server.address], timeout_s=0.5)
        calls = [store.get("t", [b"k"], at) for at in range(4 * THREADS)]
        began = time.monotonic()
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(error, Unavailable) for error in errors)
        assert any("all connections were busy" in error.message for error in errors)
        assert time.monotonic() - began < 5
        await store.close()


ASKED = call_of("getThriftServerType")


def test_a_connection_opened_during_an_abort_is_not_used():
    asked, let = threading.Event(), threading.Event()

    def handle(connection):
        connection.recv(1 << 16)
        asked.set()
        let.wait(5)
        connection.sendall(TWO)
        connection.recv(1 << 16)

    with answering(TWO) as quick:
        gateways = Gateways([quick.address])
        began = threading.Event()

        def wait_for_more(client):
            began.set()
            client.getThriftServerType()

        with ThreadPoolExecutor() as threads, Listener(handle) as slow:
            deadline = time.monotonic() + 60
            running = threads.submit(gateways.call, wait_for_more, deadline)
            assert began.wait(5)
            gateways._addresses = [slow.address]
            opening = threads.submit(gateways.call, lambda client: "used", deadline)
            assert asked.wait(5)
            gateways.abort()
            let.set()
            with pytest.raises(CallFailed, match="has closed the connection"):
                running.result(5)
            with pytest.raises(CallFailed, match="The store is closed"):
                opening.result(5)


async def test_calls_at_once_need_a_free_connection():
    let = threading.Event()

    def handle(connection):
        for ready in (lambda: True, let.wait):
            if connection.recv(1 << 16) and ready():
                connection.sendall(TWO)
        while connection.recv(1 << 16):
            pass

    with Listener(handle) as server:
        gateways = Gateways([server.address])
        deadline = time.monotonic() + 5
        with pytest.raises(CallFailed, match="free"):
            await gateways.call_at_once("getThriftServerType", ASKED, deadline)
        gateways.call(lambda client: None, deadline)
        first = asyncio.ensure_future(gateways.call_at_once("getThriftServerType", ASKED, deadline))
        await asyncio.sleep(0)  # it has the connection and awaits the answer
        with pytest.raises(CallFailed, match="free") as failed:
            await gateways.call_at_once("getThriftServerType", ASKED, deadline)
        assert not failed.value.sent
        let.set()
        assert await first == THRIFT.TThriftServerType.TWO
        gateways.close()


async def test_a_call_at_once_without_answer_ends_at_the_deadline_and_drops_its_connection():
    with answering(TWO) as server:
        gateways = Gateways([server.address])
        gateways.call(lambda client: None, time.monotonic() + 5)
        with pytest.raises(CallFailed, match="in time") as failed:
            await gateways.call_at_once("getThriftServerType", ASKED, time.monotonic() + 0.1)
        assert failed.value.sent
        with pytest.raises(CallFailed, match="free"):
            await gateways.call_at_once("getThriftServerType", ASKED, time.monotonic() + 5)
        gateways.close()


def test_nonsense_answers_raise_unavailable():
    """Messages with a valid beginning are not covered: thriftpy2 trusts the sizes in them."""
    random = Random(5)
    for size in range(1, 40):
        with answering(TWO, random.randbytes(size)) as server:
            refusal(server.address, timeout_s=0.2)


def test_an_answer_that_ends_too_early_raises_unavailable():
    answer = bytes.fromhex("80010002 0000000b") + b"tableExists" + bytes(4)
    answer += bytes.fromhex("02 0000 01 00")
    for size in range(len(answer)):

        def handle(connection, cut=answer[:size]):
            for part in (TWO, cut):
                connection.recv(1 << 16)
                connection.sendall(part)

        with Listener(handle) as server:
            assert "closed the connection" in refusal(server.address, timeout_s=5).message


def refused(message):
    """The answer to `tableExists` that refuses it with `message` and may not be repeated."""
    answer = bytes.fromhex("80010002 0000000b") + b"tableExists" + bytes(4)
    answer += bytes.fromhex("0c 0001 0b 0001") + len(message).to_bytes(4) + message
    return answer + bytes.fromhex("02 0002 00 00 00")


def test_a_refusal_is_reported_in_one_line_without_hbases_stack():
    message = (
        b"org.apache.hadoop.hbase.security.AccessDeniedException: Insufficient permissions"
        b" (user=hornbeam, scope=t)\n\tat org.apache.hadoop.hbase.Secret.java:7\n"
    )
    with answering(TWO, refused(message)) as server:
        error = refusal(server.address)
    assert "Insufficient permissions" in error.message
    assert "Secret" not in str(error)
    assert error.lasting


def test_a_namespace_that_is_being_created_is_awaited():
    message = b"org.apache.hadoop.hbase.NamespaceNotFoundException: hornbeam\n\tat org.apache\n"
    with answering(TWO, refused(message)) as server:
        assert not refusal(server.address).lasting
