"""The processes of a cluster with their roles and ports, and the versions of its programs.

`cluster.json` holds them. Format 1, which was written before versions could be chosen, has none:
such a cluster has the default versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from hornbeam_server.schema.errors import Corruption, InvalidRequest

HOST = "127.0.0.1"
STATE_FILE = "cluster.json"
_FORMAT = 2
_READ = {1, _FORMAT}


class Role(StrEnum):
    """Kinds of processes, in the order in which they become healthy."""

    ZOOKEEPER = "zookeeper"
    NAME_NODE = "name-node"
    DATA_NODE = "data-node"
    MASTER = "master"
    REGION_SERVER = "region-server"
    THRIFT = "thrift"
    """The Thrift 2 gateway: definitions, transactions, reads."""
    THRIFT1 = "thrift1"
    """The Thrift 1 gateway: for happybase, whose scans are compared with Hornbeam's."""


SEVERAL = frozenset({Role.DATA_NODE, Role.REGION_SERVER, Role.THRIFT})
"""Roles with any number of processes, which are numbered from 1. The first gateway has no number:
usually there is only one."""

STOP_ORDER = (
    (Role.REGION_SERVER,),
    (Role.MASTER,),
    (Role.THRIFT, Role.THRIFT1),
    (Role.DATA_NODE,),
    (Role.NAME_NODE,),
    (Role.ZOOKEEPER,),
)
"""A process stops before the processes that it needs for a clean stop."""

PORTS: Mapping[Role, tuple[str, ...]] = {
    Role.ZOOKEEPER: ("client",),
    Role.NAME_NODE: ("rpc", "http"),
    Role.DATA_NODE: ("data", "http", "ipc"),
    Role.MASTER: ("rpc", "http"),
    Role.REGION_SERVER: ("rpc", "http"),
    Role.THRIFT: ("rpc",),
    Role.THRIFT1: ("rpc",),
}
"""The ports on which each role listens; clients use the first one."""


class Versions(NamedTuple):
    """Versions of HBase and Hadoop, as their projects number them. The defaults are those of
    `pom.xml`."""

    hbase: str = "2.6.1"
    hadoop: str = "3.4.2"

    def __str__(self) -> str:
        return f"HBase {self.hbase} with Hadoop {self.hadoop}"


DEFAULT_VERSIONS = Versions()


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Process:
    name: str
    role: Role
    ports: Mapping[str, int]

    @property
    def address(self) -> Address:
        """The address for clients of the process."""
        return Address(HOST, self.ports[PORTS[self.role][0]])

    @property
    def http(self) -> Address:
        return Address(HOST, self.ports["http"])


@dataclass(frozen=True, slots=True)
class Layout:
    """All processes of a cluster, in the order of roles, and the versions of their programs."""

    processes: tuple[Process, ...]
    versions: Versions = DEFAULT_VERSIONS

    def of(self, role: Role) -> tuple[Process, ...]:
        return tuple(process for process in self.processes if process.role is role)

    def only(self, role: Role) -> Process:
        """The process of a role that has exactly one."""
        (process,) = self.of(role)
        return process

    def named(self, name: str) -> Process:
        for process in self.processes:
            if process.name == name:
                return process
        names = ", ".join(process.name for process in self.processes)
        raise InvalidRequest(f"This cluster has no process {name}.", cure=f"It has {names}.")

    @property
    def replication(self) -> int:
        """Copies of each block: three as in production, if there are nodes for it."""
        return min(3, len(self.of(Role.DATA_NODE)))


EMPTY = Layout(())


def grown(
    layout: Layout,
    counts: Mapping[Role, int],
    given: Mapping[str, int],
    free_ports: Callable[[int], list[int]],
) -> Layout:
    """`layout` with at least one process of every role, and with as many as `counts` says of the
    roles in it.

    The main port of the process called `name` is `given[name]`, if it is given. Existing processes
    keep their ports. Raises InvalidRequest for fewer processes than exist, and for a port that
    cannot be given.
    """
    wanted = [
        (role, name)
        for role in Role
        for name in _names(role, len(layout.of(role)), counts.get(role))
    ]
    _check_given(layout, given, {name for _, name in wanted})
    there = {process.name: process for process in layout.processes}
    taken = {port for process in layout.processes for port in process.ports.values()}
    taken.update(given.values())
    found = free_ports(len(taken) + sum(len(PORTS[role]) for role, _ in wanted))
    free = (port for port in found if port not in taken)
    return Layout(
        tuple(
            there.get(name) or Process(name, role, _ports(role, given.get(name), free.__next__))
            for role, name in wanted
        ),
        layout.versions,
    )


def with_versions(layout: Layout, hbase: str | None, hadoop: str | None) -> Layout:
    """`layout` with the versions that are given. Raises InvalidRequest if it has processes of
    other versions: their data may not be readable by these."""
    wanted = Versions(hbase or layout.versions.hbase, hadoop or layout.versions.hadoop)
    if layout.processes and wanted != layout.versions:
        raise InvalidRequest(
            f"This cluster has {layout.versions}, not {wanted}.",
            cure="Versions are chosen when a cluster is made; use another folder.",
        )
    return replace(layout, versions=wanted)


def _names(role: Role, present: int, wanted: int | None) -> list[str]:
    if role not in SEVERAL:
        return [role.value]
    count = wanted or present or 1
    if count < present:
        raise InvalidRequest(
            f"This cluster has {present} {role} processes; it cannot shrink to {count}.",
            cure="Use another folder.",
        )
    numbered = [f"{role}-{number}" for number in range(1, count + 1)]
    return [role.value, *numbered[1:]] if role is Role.THRIFT else numbered


def _check_given(layout: Layout, given: Mapping[str, int], names: set[str]) -> None:
    if unknown := given.keys() - names:
        raise InvalidRequest(
            f"There is no process {', '.join(sorted(unknown))} to give a port to.",
            cure=f"There will be {', '.join(sorted(names))}.",
        )
    for process in layout.processes:
        port = given.get(process.name, process.address.port)
        if port != process.address.port:
            raise InvalidRequest(
                f"{process.name} has port {process.address.port} in this cluster, not {port}.",
                cure="Ports are chosen when a cluster is made; use another folder.",
            )


def _ports(role: Role, given: int | None, free: Callable[[], int]) -> dict[str, int]:
    ports = {purpose: free() for purpose in PORTS[role]}
    if given is not None:
        ports[PORTS[role][0]] = given
    return ports


def to_json(layout: Layout) -> str:
    processes = [
        {"name": process.name, "role": process.role.value, "ports": dict(process.ports)}
        for process in layout.processes
    ]
    document = {
        "format": _FORMAT,
        "host": HOST,
        "versions": layout.versions._asdict(),
        "processes": processes,
    }
    return json.dumps(document, indent=2) + "\n"


def load(folder: Path) -> Layout | None:
    """The layout of the cluster in `folder`; None if there is no cluster. Raises Corruption."""
    path = folder / STATE_FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] not in _READ:
            raise ValueError(f"format {document['format']}")
        versions = DEFAULT_VERSIONS if document["format"] == 1 else Versions(**document["versions"])
        return Layout(tuple(_process(entry) for entry in document["processes"]), versions)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise Corruption(f"{path} cannot be read: {error}.", cure="Use another folder.") from None


def _process(entry: Mapping[str, Any]) -> Process:
    role = Role(entry["role"])
    return Process(entry["name"], role, {what: int(entry["ports"][what]) for what in PORTS[role]})


def save(folder: Path, layout: Layout) -> None:
    """Write the state file atomically: a reader gets the old file or the new one."""
    partial = folder / f"{STATE_FILE}.new"
    partial.write_text(to_json(layout), encoding="utf-8")
    partial.replace(folder / STATE_FILE)
