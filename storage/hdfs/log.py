"""The log on HDFS."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.hdfs.client import HdfsClient
from hornbeam_server.storage.hdfs.files import PATIENCE_S, HdfsFiles
from hornbeam_server.storage.hdfs.logs import HdfsLogs
from hornbeam_server.storage.log.segments import SEGMENT_BYTES, SegmentedLog


class HdfsLog:
    """Opens the log in a folder of HDFS."""

    @staticmethod
    async def open(
        url: str,
        folder: str,
        slave: str,
        epoch: int,
        *,
        settings: Mapping[str, str] | None = None,
        catalog_version: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
        patience_s: float = PATIENCE_S,
    ) -> SegmentedLog:
        """Take over or create the log of `slave`. `url` is `hdfs://host:port`, or names a name
        service that `settings` or the files in HADOOP_CONF_DIR describe as Hadoop does. An append
        waits `patience_s` seconds for an HDFS that is out of reach, before the log fails.

        Raises Corruption when the epoch was used before, Unavailable when a higher one has begun
        or HDFS does not answer, InvalidRequest for a `url` that cannot be one.
        """
        return await SegmentedLog.open(
            HdfsFiles(_client(url, settings), f"{folder}/{slave}", url=url, patience_s=patience_s),
            slave,
            epoch,
            catalog_version=catalog_version,
            segment_bytes=segment_bytes,
        )


def hdfs_logs(url: str, folder: str, *, settings: Mapping[str, str] | None = None) -> HdfsLogs:
    """All logs in `folder`. Raises InvalidRequest for a `url` that cannot be one."""
    return HdfsLogs(_client(url, settings), folder)


def _client(url: str, settings: Mapping[str, str] | None) -> HdfsClient:
    try:
        return HdfsClient(url, {**_alone(url), **(settings or {})})
    except Exception as error:
        raise InvalidRequest(
            f"{url} names no HDFS: {error}",
            cure="As hdfs://host:8020; a name service needs its settings, or HADOOP_CONF_DIR.",
        ) from error


def _alone(url: str) -> dict[str, str]:
    """Settings for a single NameNode, which has no other one to fail over to: a refused connection
    is reported at once. The client library would wait and retry, and it panics when it waits."""
    return {"dfs.client.failover.max.attempts": "0"} if re.search(r":\d+/?$", url) else {}
