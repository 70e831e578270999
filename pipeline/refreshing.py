"""What `hornbeam refresh` calls, by this module's name: batch after batch, for as long as asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from hornbeam.errors import Error, InterfaceError
from hornbeam.transport import Transport, persistently
from pipeline.export import beside
from pipeline.refresh import Done, refresh
from pipeline.session import LOCAL, session
from pipeline.told import client_errors

TIMEOUT_S = 600.0
"""Of one request: a node reads the segments of an hour when it is asked for the first time."""
PAUSE_S, MAX_PAUSE_S = 1.0, 60.0
"""Between the tries of a batch that fails."""
Tell = Callable[[Done | Error], None]


def keep(
    url: str,
    groups: Sequence[str],
    *,
    tell: Tell,
    once: bool = False,
    rebuild: Sequence[str] = (),
    master: str = LOCAL,
) -> None:
    """Refresh groups (none named: all there are) at their intervals, for ever; or each `once`.
    First have the views `rebuild` made anew. `tell` hears of each batch.

    Raises the client's errors: those of the only try, and of the beginning.
    """
    with client_errors():
        node = beside(url, TIMEOUT_S)
    try:
        if rebuild:
            node.json("POST", "/v1/groups/rebuild", {"views": list(rebuild)})
        known = _known(node, groups)
        with client_errors(), session(master) as spark:

            def one(group: str) -> Done:
                with client_errors():
                    return refresh(spark.sparkContext, node, url, group)

            if once:
                for group in known:
                    tell(one(group))
            else:
                _Rounds(node, groups, one, tell).go_on()
    finally:
        node.close()


def _known(node: Transport, wanted: Sequence[str]) -> dict[str, float]:
    """Groups, and the seconds between their batches. Raises InterfaceError."""
    listed: list[dict[str, Any]] = persistently(lambda: node.json("GET", "/v1/groups"))
    known = {str(group["name"]): float(group["interval_s"]) for group in listed}
    missing = [name for name in wanted if name not in known]
    if missing:
        raise InterfaceError(
            f"There is no group {', '.join(missing)} of deferred views.\n"
            f"There are: {', '.join(known) or 'none'}."
        )
    return {name: known[name] for name in (wanted or known)}


class _Rounds:
    """Which group is next, and when. One batch at a time: it has all of Spark."""

    def __init__(
        self,
        node: Transport,
        wanted: Sequence[str],
        refresh_one: Callable[[str], Done],
        tell: Tell,
    ) -> None:
        self._node = node
        self._wanted = wanted
        self._refresh = refresh_one
        self._tell = tell
        self._due: dict[str, float] = {}
        self._pause_s = PAUSE_S

    def go_on(self) -> None:
        """Until it is interrupted."""
        while True:
            try:
                self._round()
                self._pause_s = PAUSE_S
            except Error as error:
                self._tell(error)
                time.sleep(self._pause_s)
                self._pause_s = min(self._pause_s * 2, MAX_PAUSE_S)

    def _round(self) -> None:
        """The batch that is due first; groups that are new are due at once."""
        intervals = _known(self._node, self._wanted)
        now = time.monotonic()
        self._due = {group: self._due.get(group, now) for group in intervals}
        group = min(self._due, key=lambda name: self._due[name], default=None)
        if group is None:
            time.sleep(PAUSE_S)
            return
        time.sleep(min(max(self._due[group] - now, 0.0), PAUSE_S))
        if self._due[group] > time.monotonic():
            return
        began = time.monotonic()
        # Also when it fails: others have their turn.
        self._due[group] = began + intervals[group]
        self._tell(self._refresh(group))
