"""The entry point of `hornbeam reconcile`. The client loads this module by its name, since it does
not import the server package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.reconcile import job
from hornbeam_server.pipeline.reconcile.document import document
from hornbeam_server.pipeline.reconcile.page import page
from hornbeam_server.pipeline.spark.errors import client_errors
from hornbeam_server.pipeline.spark.session import Progress, session

__all__ = ["page", "run"]

TIMEOUT_S = 600.0
"""Time limit of one request. It is long, since repair waits for locks."""


def run(
    url: str, names: Sequence[str], *, repair: bool, master: str, progress: Progress
) -> dict[str, Any]:
    """The report's document. Raises the client's errors."""
    transport = open_transport(parse_url(url), TIMEOUT_S)
    try:
        with client_errors(), session(master) as spark:
            report, codecs = job.reconcile(
                spark.sparkContext, transport, url, names, repair=repair, progress=progress
            )
    finally:
        transport.close()
    return document(report, codecs)
