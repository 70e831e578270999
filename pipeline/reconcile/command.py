"""What `hornbeam reconcile` calls, by this module's name: the client imports nothing of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam.transport import open_transport, parse_url
from pipeline.reconcile import job
from pipeline.reconcile.document import document
from pipeline.reconcile.page import page
from pipeline.session import Progress, session
from pipeline.told import client_errors

__all__ = ["page", "run"]

TIMEOUT_S = 600.0
"""Of one request: repair waits for locks."""


def run(
    url: str, names: Sequence[str], *, repair: bool, master: str, progress: Progress
) -> dict[str, Any]:
    """The report. Raises the client's errors."""
    transport = open_transport(parse_url(url), TIMEOUT_S)
    try:
        with client_errors(), session(master) as spark:
            report, codecs = job.reconcile(
                spark.sparkContext, transport, url, names, repair=repair, progress=progress
            )
    finally:
        transport.close()
    return document(report, codecs)
