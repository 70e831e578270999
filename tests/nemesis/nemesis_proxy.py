"""A network that can be disturbed: each link listens on a port and passes connections on.

It runs as a process of its own. Its arguments are links, `name=port:host:port`; every line on its
standard input is `name mode`, answered with a line. It ends with its standard input.

| mode | what the link does |
| --- | --- |
| pass | passes on |
| cut | passes nothing on, either way; both sides keep waiting |
| mute | passes requests on and drops the replies |
| slow | passes on, each piece after SLOW_S |

A connection that has lost a reply cannot go on; it ends when its link is mended.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Literal

Mode = Literal["pass", "cut", "mute", "slow"]
SLOW_S = 0.1
_PIECE = 1 << 16


class Link:
    """One listening port, and the target of its connections."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._mode: Mode = "pass"
        self._mended = asyncio.Event()
        self._mended.set()
        self._connections: set[asyncio.Task[None]] = set()
        self._spoilt: set[asyncio.Task[None]] = set()

    def set(self, mode: Mode) -> None:
        self._mode = mode
        if mode == "cut":
            self._mended.clear()
            return
        self._mended.set()
        if mode != "mute":
            for connection in self._spoilt:
                connection.cancel()
            self._spoilt.clear()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            await self._mended.wait()
            with contextlib.suppress(OSError):
                await self._pass_on(connection, reader, writer)
        except asyncio.CancelledError:
            pass  # by `set`; the streams' own callback knows no cancelled handlers
        finally:
            self._connections.discard(connection)
            self._spoilt.discard(connection)
            writer.close()

    async def _pass_on(
        self,
        connection: asyncio.Task[None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Pass pieces on until one side ends."""
        inner_reader, inner_writer = await asyncio.open_connection(*self._target)
        pumps = [
            asyncio.ensure_future(self._pump(reader, inner_writer, None)),
            asyncio.ensure_future(self._pump(inner_reader, writer, connection)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            inner_writer.close()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        replies_of: asyncio.Task[None] | None,
    ) -> None:
        while piece := await reader.read(_PIECE):
            await self._mended.wait()
            if self._mode == "slow":
                await asyncio.sleep(SLOW_S)
            if self._mode == "mute" and replies_of is not None:
                self._spoilt.add(replies_of)
                continue
            writer.write(piece)
            await writer.drain()


async def main(arguments: list[str]) -> None:
    links: dict[str, Link] = {}
    for argument in arguments:
        name, _, addresses = argument.partition("=")
        listen, host, port = addresses.split(":")
        links[name] = Link(host, int(port))
        await asyncio.start_server(links[name].connected, "127.0.0.1", int(listen))
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        name, mode = line.split()
        links[name].set(mode)
        print("ok", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
