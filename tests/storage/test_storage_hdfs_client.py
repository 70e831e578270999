"""What the HDFS client does with the library's objects."""

import asyncio

from hdfs_native import FileWriter

from hornbeam_server.storage.hdfs.client import HdfsClient


class Inner:
    """What the library writes to; `closed` counts."""

    def __init__(self):
        self.written, self.closed = b"", 0

    def write(self, data):
        self.written += data
        return len(data)

    def hsync(self):
        pass

    def close(self):
        self.closed += 1


class Library:
    def __init__(self, inner):
        self._inner = inner

    def create(self, _path, _options):
        return FileWriter(self._inner)


def client_of(inner):
    client = HdfsClient("hdfs://127.0.0.1:1", {})
    client._client = Library(inner)
    return client


def test_a_writer_that_nobody_wants_any_more_is_not_closed_by_the_garbage_collector():
    """That would wait for HDFS, in the event loop's thread."""
    inner = Inner()

    async def scenario():
        client = client_of(inner)
        writer = await client.create("/f", None)
        await writer.write(b"data")
        del writer
        client.close()

    asyncio.run(scenario())
    assert (inner.written, inner.closed) == (b"data", 0)


def test_a_writer_is_closed_when_it_is_said_so():
    inner = Inner()

    async def scenario():
        client = client_of(inner)
        await (await client.create("/f", None)).close()
        client.close()

    asyncio.run(scenario())
    assert inner.closed == 1
