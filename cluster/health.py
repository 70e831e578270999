"""Checks the health of the processes of a cluster, over the protocol of each."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from hornbeam_server.cluster.layout import Address, Layout, Process, Role

TIMEOUT_S = 5.0
_THRIFT_CALL, _THRIFT_REPLY = b"\x80\x01\0\x01", b"\x80\x01\0\x02"
_RESULT = b"\0\0"
"""The number of the field that holds the result of a method; its errors have other numbers."""
_REPLY_BYTES = 64 * 1024


class Health(NamedTuple):
    ok: bool
    note: str


class _NotYet(Exception):
    """A process answers, but cannot serve. The message is the reason."""


def examine(process: Process, layout: Layout) -> Health:
    """The health of `process`, asked of it or of a process that knows about it. Each network
    operation takes TIMEOUT_S at most."""
    try:
        return Health(True, _ASK[process.role](process, layout))
    except _NotYet as reason:
        return Health(False, str(reason))
    except KeyError:
        return Health(False, "starting")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Health(False, f"no answer on {process.address}: {error}")


def _zookeeper(process: Process, layout: Layout) -> str:
    del layout
    reply = _exchange(process.address, b"srvr").decode()
    mode = next((line for line in reply.splitlines() if line.startswith("Mode:")), "")
    if not mode:
        raise _NotYet("it does not serve yet")
    return mode.lower()


def _name_node(process: Process, layout: Layout) -> str:
    about = _bean(process.http, "Hadoop:service=NameNode,name=NameNodeInfo")
    if about["Safemode"]:
        raise _NotYet("in safe mode")
    live, all_of_them = len(json.loads(about["LiveNodes"])), len(layout.of(Role.DATA_NODE))
    return f"{live} of {all_of_them} data nodes"


def _data_node(process: Process, layout: Layout) -> str:
    _knock(process.address)
    name_node = layout.only(Role.NAME_NODE)
    about = _bean(name_node.http, "Hadoop:service=NameNode,name=NameNodeInfo")
    nodes = {node["xferaddr"]: node for node in json.loads(about["LiveNodes"]).values()}
    if str(process.address) not in nodes:
        raise _NotYet("not known to the NameNode yet")
    return f"{nodes[str(process.address)]['numBlocks']} blocks"


def _master(process: Process, layout: Layout) -> str:
    about = _master_bean(process)
    if about["tag.isActiveMaster"] != "true" or about["masterFinishedInitializationTime"] <= 0:
        raise _NotYet("initialising")
    all_of_them = len(layout.of(Role.REGION_SERVER))
    return f"{about['numRegionServers']} of {all_of_them} region servers"


def _region_server(process: Process, layout: Layout) -> str:
    _knock(process.address)
    about = _master_bean(layout.only(Role.MASTER))
    live = [name.split(",")[:2] for name in about["tag.liveRegionServers"].split(";")]
    if [process.address.host, str(process.address.port)] not in live:
        raise _NotYet("not known to the master yet")
    return "serving"


def _thrift(process: Process, layout: Layout) -> str:
    del layout
    _call(process.address, "listNamespaces")
    return "serving"


def _thrift1(process: Process, layout: Layout) -> str:
    del layout
    _call(process.address, "getTableNames")
    return "serving"


_ASK = {
    Role.ZOOKEEPER: _zookeeper,
    Role.NAME_NODE: _name_node,
    Role.DATA_NODE: _data_node,
    Role.MASTER: _master,
    Role.REGION_SERVER: _region_server,
    Role.THRIFT: _thrift,
    Role.THRIFT1: _thrift1,
}


def _master_bean(master: Process) -> Mapping[str, Any]:
    return _bean(master.http, "Hadoop:service=HBase,name=Master,sub=Server")


def _bean(address: Address, name: str) -> Mapping[str, Any]:
    """A management bean of a Java process; the environment's proxies are not used."""
    connection = http.client.HTTPConnection(*address, timeout=TIMEOUT_S)
    try:
        connection.request("GET", f"/jmx?qry={name}")
        beans: list[Mapping[str, Any]] = json.loads(connection.getresponse().read())["beans"]
    finally:
        connection.close()
    if not beans:
        raise _NotYet("starting")
    return beans[0]


def _knock(address: Address) -> None:
    socket.create_connection(address, TIMEOUT_S).close()


def _exchange(address: Address, request: bytes) -> bytes:
    """The answer to `request`, or at least its beginning."""
    with socket.create_connection(address, TIMEOUT_S) as connection:
        connection.sendall(request)
        return connection.recv(_REPLY_BYTES)


def _call(gateway: Address, method: str) -> None:
    """Call a method without arguments that reaches HBase. The call is encoded by hand: by the
    specification of Thrift's binary protocol it is a version and type, a name, a number, and here
    an empty struct. Raises _NotYet."""
    name = method.encode()
    call = _THRIFT_CALL + struct.pack(">I", len(name)) + name + struct.pack(">Ib", 1, 0)
    reply = _exchange(gateway, call)
    kind, field = reply[:4], reply[len(call) : len(call) + 2]
    if kind != _THRIFT_REPLY or field != _RESULT:
        raise _NotYet("it answers with an error")
