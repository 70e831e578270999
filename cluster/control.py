"""Starts, watches, disturbs and stops the cluster in a folder."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from hornbeam_server.cluster import artefacts, configuration, layout, processes
from hornbeam_server.cluster.health import Health, examine
from hornbeam_server.cluster.layout import Address, Layout, Process, Role
from hornbeam_server.cluster.ports import free_ports, is_free
from hornbeam_server.cluster.processes import Mark
from hornbeam_server.schema.errors import InvalidRequest, NotFound, Unavailable

DEFAULT_FOLDER = Path("var/cluster")
START_TIMEOUT_S = 240.0
_STOP_TIMEOUT_S = 60.0
_KILL_TIMEOUT_S = 10.0
_PAUSE_TIMEOUT_S = 10.0
_POLL_S = 0.3
_LOG_LINES = 12
_ABORTING = "***** ABORTING"
"""Begins the lines in which a server of HBase logs why it gives up, long before its log ends."""
_FORMAT = "format"
"""The name of the temporary process that creates the empty file system."""

_AT_ONCE = frozenset({Role.ZOOKEEPER, Role.NAME_NODE, Role.DATA_NODE})
"""Roles that start first. HBase is started once HDFS is healthy: HBase itself would wait for that
in steps of 10 s."""

OnChange = Callable[[str, str], None]
"""Called with the name of a process and its new state."""


def _ignore(name: str, news: str) -> None:
    del name, news


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """The state of a process. `pid` is None when it is down; `paused`: it is stopped by a
    signal."""

    name: str
    role: Role
    ports: Mapping[str, int]
    address: Address
    pid: int | None
    paused: bool
    health: Health


class Cluster:
    """The cluster in a folder. Threads may share it; calls block (seconds, some a minute).

    `start` creates missing parts; `with Cluster.start(folder) as cluster` also stops the cluster at
    the end.
    """

    def __init__(
        self,
        folder: Path,
        made_of: Layout,
        java_options: Sequence[str] = (),
        region_options: Sequence[str] = (),
        pom: Path | None = None,
    ) -> None:
        self.folder = folder
        self.layout = made_of
        self.java_options = java_options
        self.region_options = region_options
        self.pom = pom

    @classmethod
    def at(cls, folder: Path = DEFAULT_FOLDER) -> Cluster:
        """The cluster that was created in `folder`, whether or not it runs. Raises NotFound,
        Corruption."""
        folder = folder.resolve()
        made_of = layout.load(folder)
        if made_of is None:
            raise NotFound(
                f"There is no cluster in {folder}.", cure="Make one with: hornbeam cluster up"
            )
        return cls(folder, made_of)

    @classmethod
    def start(
        cls,
        folder: Path = DEFAULT_FOLDER,
        *,
        region_servers: int | None = None,
        data_nodes: int | None = None,
        gateways: int | None = None,
        ports: Mapping[str, int] | None = None,
        java_options: Sequence[str] = (),
        region_options: Sequence[str] = (),
        hbase_version: str | None = None,
        hadoop_version: str | None = None,
        pom: Path | None = None,
        hbase: configuration.Settings = configuration.NO_SETTINGS,
        timeout_s: float = START_TIMEOUT_S,
        on_change: OnChange = _ignore,
    ) -> Cluster:
        """Start the processes of the cluster in `folder` that do not run, and wait until all are
        healthy. The cluster is created if there is none.

        `gateways` counts gateways of Thrift 2. `ports` are main ports by process; all other ports
        are free ones. The versions are those of a new cluster; an existing one keeps its own.
        `java_options`, for region servers `region_options` as well, and the jars of
        `pom` apply to the processes that this object starts; `hbase` adds to the settings of HBase
        and overrides them. Raises Unavailable, InvalidRequest and Corruption. After an error or an
        interruption, the processes that this call started are stopped.
        """
        folder = folder.resolve()
        _check_folder(folder)
        java = artefacts.java()
        with _locked(folder):
            counts = {
                Role.REGION_SERVER: region_servers,
                Role.DATA_NODE: data_nodes,
                Role.THRIFT: gateways,
            }
            made_of = layout.grown(
                layout.with_versions(
                    layout.load(folder) or layout.EMPTY, hbase_version, hadoop_version
                ),
                {role: count for role, count in counts.items() if count is not None},
                ports or {},
                free_ports,
            )
            cluster = cls(folder, made_of, java_options, region_options, pom)
            on_change("jars", "resolving")
            jars = cluster.jars()
            cluster._write(hbase)
            _Start(cluster, java, jars, time.monotonic() + timeout_s, on_change).all()
        return cluster

    def jars(self) -> Path:
        """The folder of the jars of this cluster's versions; fetches them if they are not there.
        Raises Unavailable."""
        return artefacts.resolve(self.pom, self.layout.versions)

    def _write(self, hbase: configuration.Settings) -> None:
        for name, text in configuration.files(self.folder, self.layout, hbase).items():
            path = self.folder / "conf" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for name in ("data/tmp", "logs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        layout.save(self.folder, self.layout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def thrift(self) -> Address:
        """The first Thrift 2 gateway: binary protocol, buffered transport."""
        return self.layout.of(Role.THRIFT)[0].address

    @property
    def thrift1(self) -> Address:
        """The Thrift 1 gateway: binary protocol, buffered transport."""
        return self.layout.only(Role.THRIFT1).address

    @property
    def zookeeper(self) -> Address:
        return self.layout.only(Role.ZOOKEEPER).address

    @property
    def name_node(self) -> Address:
        return self.layout.only(Role.NAME_NODE).address

    @property
    def hdfs_url(self) -> str:
        return configuration.hdfs_url(self.layout)

    def names(self, role: Role) -> list[str]:
        return [process.name for process in self.layout.of(role)]

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def status(self) -> list[ProcessStatus]:
        """The state of each process. The health of a paused process is not checked."""
        pids = processes.running(self.folder)
        everything = self.layout.processes
        with ThreadPoolExecutor(len(everything)) as pool:
            return list(pool.map(lambda each: self._status(each, pids.get(each.name)), everything))

    def _status(self, process: Process, pid: int | None) -> ProcessStatus:
        paused = pid is not None and processes.is_paused(pid)
        if pid is None:
            health = Health(False, "down")
        elif paused:
            health = Health(False, "paused")
        else:
            health = examine(process, self.layout)
        return ProcessStatus(
            process.name, process.role, process.ports, process.address, pid, paused, health
        )

    def kill(self, name: str) -> None:
        """End a process as a crash does (SIGKILL), and wait until it has ended."""
        _kill(*self._running(name))

    def pause(self, name: str) -> None:
        """Freeze a process (SIGSTOP), and wait until it stands still; its connections stay open.
        Raises Unavailable."""
        mark, pid = self._running(name)
        processes.send(mark, pid, signal.SIGSTOP)
        if not processes.wait_until_paused(mark, pid, _PAUSE_TIMEOUT_S):
            raise Unavailable(f"{name} (process {pid}) cannot be paused.")

    def resume(self, name: str) -> None:
        processes.send(*self._running(name), signal.SIGCONT)

    def restart(self, name: str, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Stop a process in good order if it runs, start it, and wait until it is healthy."""
        process = self.layout.named(name)
        java, jars = artefacts.java(), self.jars()
        with _locked(self.folder):
            self._stop_these({name})
            _Start(self, java, jars, time.monotonic() + timeout_s, _ignore).these([process])

    def await_health(self, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until all processes are healthy: after a fault HBase needs a while to move its
        regions. Raises Unavailable."""
        deadline = time.monotonic() + timeout_s
        while unwell := [each for each in self.status() if not each.health.ok]:
            if time.monotonic() > deadline:
                notes = ", ".join(f"{each.name}: {each.health.note}" for each in unwell)
                raise _failed(f"The cluster is not healthy ({notes})", self.log(unwell[0].name))
            time.sleep(_POLL_S)

    def _running(self, name: str) -> tuple[Mark, int]:
        self.layout.named(name)
        pid = processes.running(self.folder).get(name)
        if pid is None:
            raise InvalidRequest(f"{name} does not run.")
        return Mark(self.folder, name), pid

    def stop(self, *, at_once: bool = False, on_change: OnChange = _ignore) -> None:
        """Stop all running processes in good order, and wait for each; `at_once` kills them."""
        stop(self.folder, at_once=at_once, on_change=on_change)

    def _stop_these(self, names: set[str]) -> None:
        _stop(self.folder, names, _STOP_TIMEOUT_S, _ignore)


def stop(
    folder: Path = DEFAULT_FOLDER, *, at_once: bool = False, on_change: OnChange = _ignore
) -> None:
    """Stop all running processes of the cluster in `folder`, even if its files are gone."""
    folder = folder.resolve()
    timeout_s = 0.0 if at_once else _STOP_TIMEOUT_S
    with _locked(folder) if folder.exists() else contextlib.nullcontext():
        _stop(folder, set(processes.running(folder)), timeout_s, on_change)


def _stop(folder: Path, names: set[str], timeout_s: float, on_change: OnChange) -> None:
    """Stop the running processes among `names`, stage by stage. A process that has not ended within
    `timeout_s` is killed."""
    running = processes.running(folder)
    for stage in _stages(names & running.keys()):
        pids = {name: running[name] for name in stage}
        if timeout_s:
            for name, pid in pids.items():
                on_change(name, "stopping")
                processes.send(Mark(folder, name), pid, signal.SIGTERM)
                processes.send(Mark(folder, name), pid, signal.SIGCONT)
        deadline = time.monotonic() + timeout_s
        for name, pid in pids.items():
            mark = Mark(folder, name)
            if not processes.wait_until_gone(mark, pid, max(0.0, deadline - time.monotonic())):
                _kill(mark, pid)
            on_change(name, "stopped")


def _kill(mark: Mark, pid: int) -> None:
    processes.send(mark, pid, signal.SIGKILL)
    if not processes.wait_until_gone(mark, pid, _KILL_TIMEOUT_S):
        raise Unavailable(
            f"{mark.name} (process {pid}) cannot be killed.", cure="Is its disk out of reach?"
        )


def _stages(names: set[str]) -> Iterator[list[str]]:
    """Groups of `names` that may stop together, in the order of stopping; processes without a place
    in that order come first."""
    ordered: set[str] = set()
    stages = []
    for roles in layout.STOP_ORDER:
        stage = [name for name in sorted(names) if _role(name) in roles]
        ordered.update(stage)
        stages.append(stage)
    yield from (stage for stage in [sorted(names - ordered), *stages] if stage)


def _role(name: str) -> Role | None:
    kind, _, number = name.rpartition("-")
    text = kind if number.isdecimal() else name
    return Role(text) if text in set(Role) else None


def _check_folder(folder: Path) -> None:
    """Raises InvalidRequest for a path with a `:` or `,`: Java's class path and HDFS's lists of
    folders have these as separators, which cannot be escaped."""
    if bad := sorted(set(str(folder)) & set(":,")):
        raise InvalidRequest(
            f"A cluster's folder cannot have {' or '.join(bad)} in its path, as {folder} has.",
            cure="Use another folder.",
        )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`: one command at a time starts or stops its processes."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Start:
    """One start of processes. If it fails, the processes that it started are stopped again."""

    def __init__(
        self, cluster: Cluster, java: Path, jars: Path, deadline: float, on_change: OnChange
    ) -> None:
        self._cluster = cluster
        self._java = java
        self._jars = jars
        self._deadline = deadline
        self._on_change = on_change
        self._before = set(processes.running(cluster.folder))

    def all(self) -> None:
        everything = self._cluster.layout.processes
        for process in everything:
            self._on_change(process.name, "waiting")
        first = [process for process in everything if process.role in _AT_ONCE]
        with self._undone_on_failure():
            self._check_ports(everything)
            self._format()
            self._launch(first)
            self._await_health(first)
            self._launch(everything)
            self._await_health(everything)

    def these(self, wanted: Sequence[Process]) -> None:
        with self._undone_on_failure():
            self._check_ports(wanted)
            self._launch(wanted)
            self._await_health(wanted)

    @contextlib.contextmanager
    def _undone_on_failure(self) -> Iterator[None]:
        folder = self._cluster.folder
        try:
            yield
        except BaseException:
            _stop(folder, set(processes.running(folder)) - self._before, 10.0, self._on_change)
            raise

    def _check_ports(self, wanted: Sequence[Process]) -> None:
        for process in wanted:
            if process.name in self._before:
                continue
            for port in process.ports.values():
                if not is_free(port):
                    raise Unavailable(
                        f"Port {port}, which is to be {process.name}'s, is taken.",
                        cure="Stop what listens there, or make a cluster in another folder.",
                    )

    def _format(self) -> None:
        """Create the empty file system, whole or not at all."""
        folder, name_folder = self._cluster.folder, configuration.name_folder(self._cluster.folder)
        if name_folder.exists():
            return
        self._on_change("name-node", "formatting")
        _stop(folder, {_FORMAT}, 0.0, _ignore)  # a killed command may have left one
        partial = name_folder.with_suffix(".new")
        shutil.rmtree(partial, ignore_errors=True)
        mark = Mark(folder, _FORMAT)
        log = self._cluster.log(_FORMAT)
        options = (*mark.arguments, *self._cluster.java_options)
        command = configuration.format_command(self._java, self._jars, folder, partial, options)
        pid = processes.spawn(mark, command, log)
        if not processes.wait_until_gone(mark, pid, self._left()):
            raise self._late("The empty file system is not made", log)
        if not (partial / "current" / "VERSION").exists():
            raise _failed("The NameNode could not make an empty file system", log)
        partial.rename(name_folder)

    def _launch(self, wanted: Sequence[Process]) -> None:
        cluster = self._cluster
        running = processes.running(cluster.folder)
        for process in wanted:
            if process.name not in running:
                mark = Mark(cluster.folder, process.name)
                options = [*mark.arguments, *cluster.java_options]
                if process.role is Role.REGION_SERVER:
                    options += cluster.region_options
                command = configuration.command(
                    self._java, self._jars, cluster.folder, process, options
                )
                processes.spawn(mark, command, cluster.log(process.name))
                self._on_change(process.name, "starting")

    def _await_health(self, wanted: Sequence[Process]) -> None:
        for process in wanted:
            while not (health := self._health(process)).ok:
                self._check_alive(wanted)
                if not self._left():
                    why = f"{process.name} is not healthy ({health.note})"
                    raise self._late(why, self._cluster.log(process.name))
                self._on_change(process.name, health.note)
                time.sleep(_POLL_S)
            self._on_change(process.name, "healthy")

    def _health(self, process: Process) -> Health:
        return examine(process, self._cluster.layout)

    def _check_alive(self, wanted: Sequence[Process]) -> None:
        running = processes.running(self._cluster.folder)
        for process in wanted:
            if process.name not in running:
                raise _failed(
                    f"{process.name} ended while it started", self._cluster.log(process.name)
                )

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _late(self, what: str, log: Path) -> Unavailable:
        return _failed(f"{what} within the time given", log)


def _failed(what: str, log: Path) -> Unavailable:
    """The error, with the end of the log, and with the reason why HBase gave up if the log has
    one."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return Unavailable(f"{what}; it wrote no log.")
    end = f"ends with:\n{_quoted(lines[-_LOG_LINES:])}"
    aborts = [number for number, line in enumerate(lines[:-_LOG_LINES]) if _ABORTING in line]
    if aborts:
        why = _quoted(lines[aborts[-1] : aborts[-1] + _LOG_LINES])
        end = f"says why it gave up:\n{why}\nand {end}"
    return Unavailable(f"{what}.", cure=f"Its log, {log}, {end}")


def _quoted(lines: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)
