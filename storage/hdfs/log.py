"""The log on HDFS."""

from __future__ import annotations

from collections.abc import Mapping

from hdfs_native import AsyncClient

from schema.errors import InvalidRequest
from storage.hdfs.files import HdfsFiles
from storage.log.segments import SEGMENT_BYTES, SegmentedLog


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
    ) -> SegmentedLog:
        """Take over or create the log of `slave`; `url` is `hdfs://host:port` or of a name service
        that `settings`, or the files in HADOOP_CONF_DIR, describe as Hadoop does.

        Raises Corruption when the epoch was used before, Unavailable when a higher one has begun
        or HDFS does not answer, InvalidRequest for a `url` that cannot be one.
        """
        return await SegmentedLog.open(
            HdfsFiles(_client(url, settings), f"{folder}/{slave}", url=url),
            slave,
            epoch,
            catalog_version=catalog_version,
            segment_bytes=segment_bytes,
        )


def _client(url: str, settings: Mapping[str, str] | None) -> AsyncClient:
    try:
        return AsyncClient(url, dict(settings or {}))
    except Exception as error:
        raise InvalidRequest(
            f"{url} names no HDFS: {error}",
            cure="As hdfs://host:8020; a name service needs its settings, or HADOOP_CONF_DIR.",
        ) from error
