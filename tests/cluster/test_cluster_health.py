"""How answers of processes become their health."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from hornbeam_server.cluster.health import Health, examine
from hornbeam_server.cluster.layout import EMPTY, Layout, Process, Role, grown

Answering = Callable[[bytes], int]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """A function that starts a listener with a fixed answer and returns its port."""
    with ExitStack() as open_ones:

        def listen(answer: bytes) -> int:
            listener = open_ones.enter_context(socket.create_server(("127.0.0.1", 0)))
            server = threading.Thread(target=_serve, args=(listener, answer), daemon=True)
            open_ones.callback(server.join, 5)
            open_ones.callback(listener.shutdown, socket.SHUT_RDWR)
            server.start()
            return listener.getsockname()[1]

        yield listen


def _serve(listener: socket.socket, answer: bytes) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)


def page(*beans: dict[str, Any]) -> bytes:
    text = json.dumps({"beans": beans}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


def silent() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def layout_with(**ports: dict[str, int]) -> Layout:
    """A cluster whose processes have `ports`; nothing listens on the other ports."""
    named = {name.replace("_", "-"): given for name, given in ports.items()}
    made = grown(EMPTY, {Role.DATA_NODE: 2}, {}, lambda count: [silent() for _ in range(count)])
    return Layout(
        tuple(
            Process(each.name, each.role, {**each.ports, **named.get(each.name, {})})
            for each in made.processes
        )
    )


def asked(layout: Layout, name: str) -> Health:
    return examine(layout.named(name), layout)


@pytest.mark.parametrize("process", layout_with().processes, ids=lambda each: each.name)
def test_a_process_that_does_not_listen_is_unhealthy(process):
    layout = layout_with()
    health = asked(layout, process.name)
    assert not health.ok
    assert health.note.startswith(f"no answer on {layout.named(process.name).address}")


def test_zookeeper_is_healthy_when_it_serves(answering):
    serving = layout_with(zookeeper={"client": answering(b"Zookeeper version\nMode: standalone\n")})
    assert asked(serving, "zookeeper") == Health(True, "mode: standalone")
    starting = layout_with(
        zookeeper={"client": answering(b"This instance is not serving requests")}
    )
    assert asked(starting, "zookeeper") == Health(False, "it does not serve yet")


def name_node_page(safe_mode: str, *addresses: str) -> bytes:
    nodes = {address: {"xferaddr": address, "numBlocks": 7} for address in addresses}
    return page({"Safemode": safe_mode, "LiveNodes": json.dumps(nodes)})


def test_the_name_node_is_healthy_outside_safe_mode(answering):
    up = layout_with(name_node={"http": answering(name_node_page("", "127.0.0.1:1"))})
    assert asked(up, "name-node") == Health(True, "1 of 2 data nodes")
    safe = layout_with(name_node={"http": answering(name_node_page("Safe mode is ON"))})
    assert asked(safe, "name-node") == Health(False, "in safe mode")
    for answer in (page(), page({"Version": "3.4.2"})):
        early = layout_with(name_node={"http": answering(answer)})
        assert asked(early, "name-node") == Health(False, "starting")


def test_a_data_node_is_healthy_when_the_name_node_lists_it(answering):
    port = answering(b"")
    address = f"127.0.0.1:{port}"
    known = {"http": answering(name_node_page("", address))}
    up = layout_with(data_node_1={"data": port}, name_node=known)
    assert asked(up, "data-node-1") == Health(True, "7 blocks")
    assert asked(up, "data-node-2").note.startswith("no answer")
    unknown = {"http": answering(name_node_page("", "127.0.0.1:1"))}
    new = layout_with(data_node_1={"data": port}, name_node=unknown)
    assert asked(new, "data-node-1") == Health(False, "not known to the NameNode yet")


def master_page(active: str = "true", finished: int = 1, servers: str = "") -> bytes:
    count = len(servers.split(";")) if servers else 0
    return page(
        {
            "tag.isActiveMaster": active,
            "masterFinishedInitializationTime": finished,
            "numRegionServers": count,
            "tag.liveRegionServers": servers,
        }
    )


def test_the_master_is_healthy_when_active_and_initialised(answering):
    up = layout_with(master={"http": answering(master_page(servers="a,1,2;b,1,2"))})
    assert asked(up, "master") == Health(True, "2 of 1 region servers")
    for answer in (master_page(active="false"), master_page(finished=0)):
        starting = layout_with(master={"http": answering(answer)})
        assert asked(starting, "master") == Health(False, "initialising")


def test_a_region_server_is_healthy_when_the_master_lists_it(answering):
    port = answering(b"")
    servers = f"127.0.0.1,1,99;127.0.0.1,{port},1795299478607"
    master = {"http": answering(master_page(servers=servers))}
    up = layout_with(region_server_1={"rpc": port}, master=master)
    assert asked(up, "region-server-1") == Health(True, "serving")
    master = {"http": answering(master_page(servers="127.0.0.1,1,99"))}
    new = layout_with(region_server_1={"rpc": port}, master=master)
    assert asked(new, "region-server-1") == Health(False, "not known to the master yet")


def thrift_reply(method: bytes, kind: int, field: int) -> bytes:
    head = struct.pack(">II", 0x80010000 | kind, len(method)) + method + struct.pack(">I", 1)
    return head + struct.pack(">bh", 15, field)


@pytest.mark.parametrize(
    ("name", "method"), [("thrift", b"listNamespaces"), ("thrift1", b"getTableNames")]
)
def test_a_gateway_is_healthy_when_it_answers_a_call(answering, name, method):
    def answered(reply: bytes) -> Health:
        return asked(layout_with(**{name: {"rpc": answering(reply)}}), name)

    assert answered(thrift_reply(method, 2, 0)) == Health(True, "serving")
    assert answered(thrift_reply(method, 2, 1)) == Health(False, "it answers with an error")
    assert answered(thrift_reply(method, 3, 0)) == Health(False, "it answers with an error")
    assert not answered(b"").ok
    assert not answered(b"HTTP/1.1 400 Bad Request").ok
