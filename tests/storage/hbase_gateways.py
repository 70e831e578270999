"""Stand-ins for Thrift gateways: one with prepared answers, and a proxy that can be cut."""

import contextlib
import socket
import threading
import time

from hornbeam_server.cluster import Role
from hornbeam_server.storage.hbase.gateways import Address, Gateways
from hornbeam_server.storage.hbase.interface import THRIFT

TWO = bytes.fromhex("80010002 00000013") + b"getThriftServerType" + bytes.fromhex("00000000")
TWO += bytes.fromhex("08 0000 00000002 00")
"""A Thrift 2 gateway's answer to the question for its type."""


def make_namespace(cluster, name):
    """Make a namespace in HBase, unless it exists, as operators do in HBase's shell."""

    def make(client):
        if name not in client.listNamespaces():
            client.createNamespace(THRIFT.TNamespaceDescriptor(name=name))

    gateways = Gateways([cluster.thrift])
    gateways.call(make, time.monotonic() + 60)
    gateways.close()


def page_port(cluster):
    """The port of the region server's web page; of several ones, the first one's."""
    return cluster.layout.of(Role.REGION_SERVER)[0].ports["http"]


class Listener:
    """Accepts connections in threads; `handle(connection)` serves one. A context manager."""

    def __init__(self, handle):
        self._handle = handle
        self._connections = set()
        self._threads = []
        self._listen(0)
        self.address = Address(*self._socket.getsockname())

    def _listen(self, port):
        self._socket = socket.create_server(("127.0.0.1", port))
        self._spawn(self._accept, self._socket)

    def _spawn(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listening):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                self._connections.add(connection)
                self._spawn(self._serve, connection)

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError):
            self._handle(connection)

    def close_connections(self):
        for connection in list(self._connections):
            self._connections.discard(connection)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """Refuse and close all connections, as if the process had been killed."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.close_connections()

    def mend(self):
        self._listen(self.address.port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cut()
        for thread in self._threads:
            thread.join()


class Proxy(Listener):
    """Forwards to the gateway `target`. While `mute`, requests arrive and answers are lost. Answers
    come `late_s` seconds later."""

    def __init__(self, target):
        self._target = target
        self.mute = False
        self.late_s = 0.0
        super().__init__(self._forward)

    def _forward(self, connection):
        with socket.create_connection(self._target) as behind:
            self._connections.add(behind)
            back = threading.Thread(target=self._answers, args=(behind, connection))
            back.start()
            try:
                while data := connection.recv(1 << 16):
                    behind.sendall(data)
            finally:
                with contextlib.suppress(OSError):
                    behind.shutdown(socket.SHUT_RDWR)
                back.join()

    def _answers(self, behind, connection):
        with contextlib.suppress(OSError):
            while data := behind.recv(1 << 16):
                time.sleep(self.late_s)
                if not self.mute:
                    connection.sendall(data)
            connection.shutdown(socket.SHUT_RDWR)
