"""Hornbeam through its PEP 249 client, as applications use it: over REST to a node, or in this
process on an embedded store."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import hornbeam
from bench import remote
from bench.peers.design import Source
from bench.peers.files import HBaseFiles
from bench.peers.port import Cannot, Row, Task, Write
from bench.peers.results import HORNBEAM

STATEMENT_S = 600
"""The time limit of statements. Whole joins take longer than the default limit."""


class Hornbeam:
    """The empty database at `url`, with the views that Hornbeam chooses for `source`."""

    def __init__(self, name: str, url: str, source: Source) -> None:
        self.name = name
        self.versions = {"hornbeam": importlib.metadata.version("hornbeam-server")}
        self.url = url
        self._db = hornbeam.connect(url, autocommit=True)
        remote.apply(self._db, source)

    def load(self, relation: str, rows: Iterable[Row]) -> None:
        """Insert rows. Raises Cannot."""
        try:
            remote.load(self._db, relation, rows)
        except hornbeam.Error as error:
            raise Cannot(str(error)) from error

    def loaded(self) -> None:
        remote.wait_built(self._db)

    def session(self, *, use_views: bool = True) -> _Session:
        return _Session(
            hornbeam.connect(self.url, autocommit=True, use_views=use_views, timeout_s=STATEMENT_S)
        )

    def sizes(self) -> Mapping[str, int]:
        """The bytes of keys and values of all versions, by table."""
        sizes = {"sizes": "true"}
        found: dict[str, int] = self._db.transport.json("GET", "/v1/status", params=sizes)["bytes"]
        return found

    def close(self) -> None:
        self._db.close()


class HornbeamOnHBase(Hornbeam):
    """Hornbeam on HBase. Its stored bytes are measured like those of Phoenix's tables: as files in
    HDFS, after a flush of all memory."""

    def __init__(self, url: str, source: Source, files: HBaseFiles) -> None:
        super().__init__(HORNBEAM, url, source)
        self._files = files

    def loaded(self) -> None:
        super().loaded()
        self._files.flush()

    def sizes(self) -> Mapping[str, int]:
        return self._files.sizes()


class _Session:
    def __init__(self, db: hornbeam.Connection) -> None:
        self._db = db
        self._cursor = db.cursor()

    def run(self, task: Task, values: Sequence[Any]) -> list[Row]:
        try:
            self._cursor.execute(task.sql, values)
            return self._cursor.fetchall() if task.reads else []
        except hornbeam.Error as error:
            raise Cannot(str(error)) from error

    def drain(self, task: Task) -> int:
        try:
            return sum(batch.num_rows for batch in self._cursor.arrow_batches(task.sql))
        except hornbeam.Error as error:
            raise Cannot(str(error)) from error

    def transact(self, writes: Sequence[Write]) -> None:
        try:
            with self._db.pipeline():
                for task, values in writes:
                    self._cursor.execute(task.sql, values)
        except hornbeam.Error as error:
            raise Cannot(str(error)) from error

    def close(self) -> None:
        self._db.close()
