"""A process with a session: prints four times a second whether it is sure of it (`t alive`)."""

import asyncio
import sys
import time

from hornbeam_server.storage.zookeeper.coordination import ZookeeperCoordination


async def main(hosts, root):
    coordination = await ZookeeperCoordination.open(hosts, root)
    await coordination.join("frozen")
    while True:
        asked = time.monotonic()
        print(asked, coordination.alive(), flush=True)
        await asyncio.sleep(0.25)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
