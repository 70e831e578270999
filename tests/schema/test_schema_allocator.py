"""Freed memory is returned to the system, on glibc."""

import platform
import subprocess
import sys

PROGRAM = """
import asyncio
from pathlib import Path
from hornbeam_server.schema.allocator import keep_trimmed, return_freed_memory, trim

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

return_freed_memory()
before = resident()
blocks = [bytearray(b"x" * (1 << 20)) for _ in range(100)]
between = blocks[::10]
del blocks
large = resident() - before
blocks = [bytearray(b"x" * 20_000) for _ in range(10_000)]
between += blocks[::100]
del blocks
held = resident() - before
trim()
print(large, held, resident() - before)
"""


def test_large_blocks_and_holes_between_blocks_are_returned():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    large, held, trimmed = map(int, done.stdout.split())
    assert platform.libc_ver()[0] == "glibc", "another C library promises nothing: adapt this test"
    assert large < 60
    assert held > 150
    assert trimmed < 60


def test_arrow_has_no_allocator_of_its_own_that_retains_memory():
    program = "\n".join(
        [
            "import pyarrow as pa",
            "from hornbeam_server.schema.allocator import return_freed_memory",
            "return_freed_memory()",
            "print(pa.default_memory_pool().backend_name)",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "system\n"
