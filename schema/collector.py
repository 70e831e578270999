"""How often Python's cyclic collector runs in processes that do nothing but Hornbeam's work."""

from __future__ import annotations

import gc


def settle_collector() -> None:
    """Let it run less often.

    Rows, keys and puts are tuples and bytes, which die by their reference counts; walking them
    again and again is a third of the time of a bulk load. For a process that is all Hornbeam's: a
    server's, or one of Spark's Python workers while it does our tasks.
    """
    gc.set_threshold(10_000, 20, 50)
