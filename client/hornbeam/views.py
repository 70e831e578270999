"""Materialised views as statements of the client know them: their builds, and REFRESH."""

from __future__ import annotations

import time
from urllib.parse import quote

from hornbeam.errors import OperationalError, ProgrammingError
from hornbeam.transport import Requests

BUILD_S = 600.0
"""Time that CREATE MATERIALIZED VIEW waits for its build, in seconds."""
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.5
_UNFINISHED = ("building", "catching up")
"""The states of a view whose build has not ended."""


async def wait_until_readable(requests: Requests, name: str) -> None:
    """Wait until the build of an immediate view has ended. A view that batches refresh is built by
    its next batch. Raises OperationalError if the build fails or takes longer than `BUILD_S`."""
    end, pause = time.monotonic() + BUILD_S, _FIRST_PAUSE_S
    while True:
        view = await requests.json("GET", f"/v1/views/{quote(name, safe='')}")
        state = view["state"]
        if state == "readable" or view["immediate"] is None:
            return
        if state == "quarantined" or time.monotonic() > end:
            why = (view["progress"] or {}).get("error") or f"it is {state}"
            raise OperationalError(
                f"View {name} is declared, and cannot be read yet: {why}.\n"
                "  Follow its build: hornbeam view list"
            )
        await requests.pause(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


async def wait_until_all_readable(requests: Requests) -> None:
    """Wait for the builds of all immediate views, as `wait_until_readable` does for one."""
    for view in (await requests.json("GET", "/v1/schema"))["views"]:
        if view["immediate"] is not None and view["state"] in _UNFINISHED:
            await wait_until_readable(requests, view["name"])


async def refresh(requests: Requests, name: str) -> None:
    """REFRESH MATERIALIZED VIEW: the nodes bring the group of a live or deferred view up to date.
    Transactions keep an immediate view, so nothing is to be done. Raises NotSupportedError if the
    nodes leave the batch to Spark, ProgrammingError if there is no such view."""
    for view in (await requests.json("GET", "/v1/schema"))["views"]:
        if view["name"] == name:
            if view["deferred"] is not None:
                group = quote(view["deferred"]["group"], safe="")
                await requests.json("POST", f"/v1/groups/{group}/refresh", {})
            return
    raise ProgrammingError(f'The materialized view "{name}" does not exist.')
