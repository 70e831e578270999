"""How the HDFS client uses the objects of its library."""

import asyncio

from hdfs_native import FileWriter

from hornbeam_server.storage.hdfs.client import HdfsClient


class Inner:
    """The target of the library's writes; `closed` counts calls of `close`."""

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


def test_the_garbage_collector_does_not_close_an_abandoned_writer():
    """Closing would wait for HDFS, in the event loop's thread."""
    inner = Inner()

    async def scenario():
        client = client_of(inner)
        writer = await client.create("/f", None)
        await writer.write(b"data")
        del writer
        client.close()

    asyncio.run(scenario())
    assert (inner.written, inner.closed) == (b"data", 0)


async def test_close_closes_a_writer():
    inner = Inner()
    client = client_of(inner)
    await (await client.create("/f", None)).close()
    client.close()
    assert inner.closed == 1
