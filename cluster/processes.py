"""The processes of a cluster, as the operating system knows them.

A process belongs to a cluster if its command line bears the mark with which it was started: the
cluster's folder and the process's name. There are no pid files that could be out of date. If
another process has taken over a process number, it is never signalled: the mark is checked while a
handle of the process is held, and the signal goes to the handle. Needs Linux (5.3 or newer).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_EXEC_S = 1.0
_children: set[int] = set()
"""Processes that this one started and has not reaped."""


class Mark(NamedTuple):
    """Shows on a command line which cluster a process belongs to, and its name there; Java takes
    the mark for two definitions."""

    folder: Path
    name: str

    @property
    def arguments(self) -> tuple[str, str]:
        return f"-Dhornbeam.cluster={self.folder}", f"-Dhornbeam.process={self.name}"


def spawn(mark: Mark, command: list[str], log: Path) -> int:
    """Start a process whose command line bears `mark`; returns its number. It has a session of its
    own, so that no Ctrl-C reaches it."""
    with log.open("ab") as output:
        pid = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGPIPE],
        )
    _children.add(pid)
    _await_command_line(mark, pid)
    return pid


def _await_command_line(mark: Mark, pid: int) -> None:
    """Wait for the new command line: the kernel shows it shortly after it reports the start."""
    deadline = time.monotonic() + _EXEC_S
    while not _bears(mark, pid) and time.monotonic() < deadline:
        time.sleep(0.001)


def running(folder: Path) -> dict[str, int]:
    """Names and process numbers of all running processes of the cluster in `folder`."""
    ours = f"-Dhornbeam.cluster={folder}"
    found = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            pid = int(entry.name)
            arguments = _arguments(pid)
            if ours in arguments and _leads_session(pid):
                found[_name(arguments)] = pid
    return found


def _name(arguments: Sequence[str]) -> str:
    prefix = "-Dhornbeam.process="
    return next((a.removeprefix(prefix) for a in arguments if a.startswith(prefix)), "")


def _leads_session(pid: int) -> bool:
    """True if the process leads its session, as all processes from `spawn` do. A child that a Java
    process forks shows its parent's command line until it runs a program."""
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def is_paused(pid: int) -> bool:
    try:
        after_name = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return after_name.split()[0] in {"T", "t"}


def send(mark: Mark, pid: int, number: signal.Signals) -> bool:
    """Signal the process, unless it has ended or does not bear `mark`; returns whether it was
    signalled."""
    with _handle(pid) as handle:
        if handle is None or not _bears(mark, pid):
            return False
        signal.pidfd_send_signal(handle, number)
        return True


def wait_until_paused(mark: Mark, pid: int, timeout_s: float) -> bool:
    """True if a process stands still after a stop signal, now or within `timeout_s`: a busy machine
    lets it run on for a while. A process that has ended counts as well."""
    deadline = time.monotonic() + timeout_s
    while _bears(mark, pid) and not is_paused(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def wait_until_gone(mark: Mark, pid: int, timeout_s: float) -> bool:
    """True if the process has ended, now or within `timeout_s`. A process without `mark` counts as
    ended.

    A process that is ending loses its command line before it releases its ports and files.
    """
    with _handle(pid) as handle:
        if handle is not None and (_bears(mark, pid) or not _arguments(pid)):
            ended = select.poll()
            ended.register(handle, select.POLLIN)
            if not ended.poll(timeout_s * 1000):
                return False
    _reap(pid)
    return True


def _reap(pid: int) -> None:
    """Reap a process that this one has started; other processes are left to their parents."""
    if pid in _children:
        with contextlib.suppress(ChildProcessError):  # another thread was quicker
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                return
        _children.discard(pid)


@contextlib.contextmanager
def _handle(pid: int) -> Iterator[int | None]:
    """A handle of the process, which never refers to a later process of the same number; None if
    there is no such process."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def _bears(mark: Mark, pid: int) -> bool:
    return set(mark.arguments) <= set(_arguments(pid))


def _arguments(pid: int) -> list[str]:
    """The command line; empty for a process that is ending or has ended, reaped or not."""
    try:
        line = os.fsdecode((_PROC / str(pid) / "cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return []
    return line.split("\0") if line else []
