"""A process that owns a log on HDFS: it prints each acknowledged record, then the reason of its
end."""

import asyncio
import sys

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.hdfs.log import HdfsLog


async def main(url, folder, epoch):
    log = await HdfsLog.open(url, folder, "a", int(epoch))
    number = 0
    try:
        while True:
            payload = f"{epoch}-{number}"
            await log.append([payload.encode()])
            print(payload, flush=True)
            number += 1
    except Unavailable as refused:
        print(refused.message, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
