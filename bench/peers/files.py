"""Measures the files in HDFS of the tables in a namespace of HBase."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from bench.peers.jdbc import Connection, file_sizes, start_java
from bench.peers.phoenix_cluster import PhoenixCluster
from hornbeam_server.storage.hbase import names


class HBaseFiles:
    """The tables of a namespace, through HBase's own client, which is part of Phoenix's client."""

    def __init__(self, base: PhoenixCluster, namespace: str) -> None:
        start_java(base)
        self._zookeeper = base.cluster.zookeeper
        self._namespace = namespace

    def flush(self) -> None:
        """Write all memory of the tables to files."""
        with closing(self._connection()) as db:
            db.flush(db.tables_in(self._namespace))

    def sizes(self) -> Mapping[str, int]:
        """The bytes of each table's files."""
        with closing(self._connection()) as db:
            found = file_sizes(db.tables_in(self._namespace))
        return {names.decode(name.encode()): size for name, size in found.items()}

    def _connection(self) -> Connection:
        return Connection(self._zookeeper, autocommit=True)
