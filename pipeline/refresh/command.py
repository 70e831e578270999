"""Batches by Spark for `hornbeam refresh`. The client loads this module by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hornbeam.refreshing import SPARK, Refreshed
from hornbeam_server.pipeline.refresh.driver import refresh
from hornbeam_server.pipeline.spark.errors import client_errors
from hornbeam_server.pipeline.spark.export import beside
from hornbeam_server.pipeline.spark.session import LOCAL, session

TIMEOUT_S = 600.0
"""Time limit of one request. At the first request a node reads the segments of an hour."""


@contextmanager
def refreshing(url: str, master: str = LOCAL) -> Iterator[Callable[[str], Refreshed]]:
    """A Spark session, in which the function does the next batch of a group. Raises the client's
    errors, as the function does."""
    with client_errors():
        node = beside(url, TIMEOUT_S)
    try:
        with client_errors(), session(master) as spark:

            def one(group: str) -> Refreshed:
                with client_errors():
                    done = refresh(spark.sparkContext, node, url, group)
                counts = done.counts
                return Refreshed(
                    group, done.upto, done.views, counts.changes, counts.rows, done.seconds, SPARK
                )

            yield one
    finally:
        node.close()
