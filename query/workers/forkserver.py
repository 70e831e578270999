"""The fork server, from which workers are forked, and the loop that a worker runs.

The fork server imports DuckDB and Arrow once, opens no database and starts no thread, so that a
fork is cheap and safe. When the server process ends for any reason, the control socket closes; the
fork server then kills its workers and exits.

Invariant: only the fork server reaps its children, so the system never reuses a process id that
the fork server knows.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import pickle
import resource
import select
import shutil
import signal
import socket
import sys
import traceback
from dataclasses import replace

from hornbeam_server.query.workers.control import LENGTH, Fork, Kill, Options
from hornbeam_server.query.workers.messages import (
    HEADER,
    UNANSWERED,
    decode_request,
    encode_reply,
    receive,
)
from hornbeam_server.query.workers.statements import Statements, failure

_REAP_MS = 20
_PR_SET_PDEATHSIG = 1
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PREFERRED_VICTIM = "900"
"""OOM score: when the machine runs out of memory, the kernel kills workers before the server."""

_NICE = 10
"""Workers run at a lower CPU priority than the server, which serves all clients."""


def main(descriptor: int) -> None:
    """Serve the control socket `descriptor` until it closes, then exit the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    gc.collect()
    gc.freeze()  # otherwise the collector would write to pages that all workers share
    children: dict[int, Options] = {}
    dying: set[int] = set()
    with contextlib.suppress(ConnectionError):
        while True:
            readable, _, _ = select.select([control], [], [], _REAP_MS / 1000 if dying else None)
            if readable:
                received = _receive_control(control)
                if received is None:
                    break
                _carry_out(*received, control, children, dying)
            _reap(children, dying)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    while children:
        _reap(children, dying, block=True)
    os._exit(0)  # a normal exit would make DuckDB's frozen module complain of live objects


def _receive_control(control: socket.socket) -> tuple[Fork | Kill, list[int]] | None:
    """The next control message and its descriptors; None when the other end has closed."""
    length, descriptors, _, _ = socket.recv_fds(control, LENGTH.size, 1)
    if not length:
        return None
    rest = receive(control, LENGTH.unpack(length)[0])
    return pickle.loads(rest), list(descriptors)


def _carry_out(
    message: Fork | Kill,
    descriptors: list[int],
    control: socket.socket,
    children: dict[int, Options],
    dying: set[int],
) -> None:
    if isinstance(message, Kill):
        if message.pid in children:
            os.kill(message.pid, signal.SIGKILL)
            dying.add(message.pid)
        return
    (descriptor,) = descriptors
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        control.close()
        _become_worker(parent, descriptor, message.options)
    os.close(descriptor)
    children[pid] = message.options
    answer = pickle.dumps(pid)
    control.sendall(LENGTH.pack(len(answer)) + answer)


def _reap(children: dict[int, Options], dying: set[int], *, block: bool = False) -> None:
    """Reap children that have ended, and delete their spill files."""
    while children:
        pid, _ = os.waitpid(-1, 0 if block else os.WNOHANG)
        if not pid:
            return
        options = children.pop(pid)
        dying.discard(pid)
        if options.spill_folder is not None:
            shutil.rmtree(options.spill_folder / str(pid), ignore_errors=True)


def _become_worker(parent: int, descriptor: int, options: Options) -> None:
    """Serve requests in the forked child. Does not return."""
    status = 1
    try:
        _die_with(parent)
        os.nice(_NICE)
        spill = options.spill_folder
        if spill is not None:  # DuckDB gives its files the same names in every process
            own = spill / str(os.getpid())
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
            options = replace(options, spill_folder=own)
        serve(socket.socket(fileno=descriptor), options)
        status = 0
    except (ConnectionError, MemoryError):
        pass  # the server process notices that its end of the socket closes
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _die_with(parent: int) -> None:
    """Make the kernel kill this process when the fork server dies. On systems other than Linux, an
    idle worker ends when its socket closes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as adjustment:
            adjustment.write(_PREFERRED_VICTIM)
        if os.getppid() != parent:
            os._exit(1)


def serve(connection: socket.socket, options: Options) -> None:
    """Answer requests until the connection closes."""
    statements = Statements(options)
    _limit_memory((options.memory_mb + options.headroom_mb) << 20)
    unreported = None
    while True:
        head_bytes, body_bytes = HEADER.unpack(receive(connection, HEADER.size))
        head, body = receive(connection, head_bytes), receive(connection, body_bytes)
        request = decode_request(head, body)
        del body
        try:
            reply = unreported or statements.answer(request)
        except Exception as error:
            reply = failure(error)
        if isinstance(request, UNANSWERED):
            unreported = reply
            continue
        assert reply is not None
        unreported = None
        frame = encode_reply(reply, _resident())
        del reply, request
        for piece in frame:
            connection.sendall(piece)
        del frame


def _limit_memory(more: int) -> None:
    """Limit this process to `more` bytes of address space beyond its current size. Disable core
    dumps."""
    size = _memory_pages()[0] * _PAGE + more
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _resident() -> int:
    """Resident memory of this process in bytes."""
    return _memory_pages()[1] * _PAGE


def _memory_pages() -> tuple[int, int]:
    """(address space, resident memory) of this process in pages; zeros if the system has no
    /proc."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            size, resident, *_ = statm.read().split()
    except OSError:
        return 0, 0
    return int(size), int(resident)
