"""The lock on a database folder, as another process meets it."""

import asyncio
import subprocess
import sys

from hornbeam_server.storage.local.coordination import LocalCoordination


async def test_another_process_is_refused_while_the_folder_is_open(tmp_path):
    program = (
        "import sys; from pathlib import Path\n"
        "from hornbeam_server.schema.errors import Unavailable\n"
        "from hornbeam_server.storage.local.coordination import LocalCoordination as Local\n"
        "try: Local.open(Path(sys.argv[1]))\n"
        "except Unavailable as error: print(error.message)\n"
        "else: print('opened')\n"
    )

    def other_process():
        command = [sys.executable, "-c", program, str(tmp_path / "coordination")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    service = LocalCoordination.open(tmp_path / "coordination")
    refused = await asyncio.to_thread(other_process)
    assert refused == f"The database in {tmp_path} is open in another process."
    await service.close()
    assert await asyncio.to_thread(other_process) == "opened"
