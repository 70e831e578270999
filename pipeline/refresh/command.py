"""The entry point of `hornbeam refresh`: run batches, once or until interrupted. The client loads
this module by its name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hornbeam.errors import Error, InterfaceError
from hornbeam.transport import Transport, persistently
from hornbeam_server.pipeline.refresh.driver import Done, refresh
from hornbeam_server.pipeline.spark.errors import client_errors
from hornbeam_server.pipeline.spark.export import beside
from hornbeam_server.pipeline.spark.session import LOCAL, session

TIMEOUT_S = 600.0
"""Time limit of one request. At the first request a node reads the segments of an hour."""
PAUSE_S, MAX_PAUSE_S = 1.0, 60.0
"""First and maximum seconds between the attempts of a batch that fails."""
Report = Callable[[Done | Error], None]


def keep(
    url: str,
    groups: Sequence[str],
    *,
    report: Report,
    once: bool = False,
    rebuild: Sequence[str] = (),
    master: str = LOCAL,
) -> None:
    """Refresh groups (no names: all groups) at their intervals, without end; or each `once`. First
    request a rebuild of the views `rebuild`. `report` is called with each batch or error.

    Raises the client's errors: those before the first batch; with `once`, after all groups have
    been tried, the error of the last group that failed (`report` gets the other errors).
    """
    with client_errors():
        node = beside(url, TIMEOUT_S)
    try:
        if rebuild:
            node.json("POST", "/v1/groups/rebuild", {"views": list(rebuild)})
        wanted = _checked(_intervals(node), groups)
        with client_errors(), session(master) as spark:

            def one(group: str) -> Done:
                with client_errors():
                    return refresh(spark.sparkContext, node, url, group)

            if once:
                each_once(wanted, one, report)
            else:
                Rounds(partial(_intervals, node), groups, one, report).go_on()
    finally:
        node.close()


def _intervals(node: Transport) -> dict[str, float]:
    """All groups, and the seconds between their batches."""
    listed: list[dict[str, Any]] = persistently(lambda: node.json("GET", "/v1/groups"))
    return {str(group["name"]): float(group["interval_s"]) for group in listed}


def _checked(known: Iterable[str], wanted: Sequence[str]) -> Sequence[str]:
    """The groups to refresh. Raises InterfaceError."""
    missing = [name for name in wanted if name not in known]
    if missing:
        raise InterfaceError(
            f"There is no group {', '.join(missing)} of deferred views.\n"
            f"There are: {', '.join(known) or 'none'}."
        )
    return wanted or list(known)


def each_once(groups: Iterable[str], refresh_one: Callable[[str], Done], report: Report) -> None:
    failed: list[Error] = []
    for group in groups:
        try:
            report(refresh_one(group))
        except Error as error:
            failed.append(error)
    for failure in failed[:-1]:
        report(failure)
    if failed:
        raise failed[-1]


@dataclass(frozen=True, slots=True)
class Turn:
    """The time at which an attempt is due, and the pause before the next if it fails."""

    due: float
    pause_s: float = PAUSE_S

    def after_failure(self, began: float, ended: float) -> Turn:
        """The turn after a failed attempt. The pause is at least as long as the attempt, so failing
        attempts use at most half of the time."""
        pause_s = max(self.pause_s, ended - began)
        return Turn(ended + pause_s, min(self.pause_s * 2, MAX_PAUSE_S))


class Rounds:
    """Schedules the groups. A group that fails waits; the others keep their times.

    One batch runs at a time, since it uses all of Spark.
    """

    def __init__(
        self,
        intervals: Callable[[], Mapping[str, float]],
        wanted: Sequence[str],
        refresh_one: Callable[[str], Done],
        report: Report,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`intervals` returns all groups with the seconds between their batches. If `wanted` is not
        empty, only its groups are refreshed."""
        self._intervals = intervals
        self._wanted = wanted
        self._refresh = refresh_one
        self._report = report
        self._now = now
        self._sleep = sleep
        self._turns: dict[str, Turn] = {}
        self._listing = Turn(now())

    def go_on(self) -> None:
        """Run batches until interrupted."""
        while True:
            began = self._now()
            try:
                intervals = self._intervals()
            except Error as error:  # no group can be refreshed
                self._report(error)
                self._listing = self._listing.after_failure(began, self._now())
                self._sleep(self._listing.due - self._now())
            else:
                self._listing = Turn(began)
                self._round(intervals)

    def _round(self, intervals: Mapping[str, float]) -> None:
        """Run the batch that is due first, or wait for it. New groups are due at once."""
        now = self._now()
        self._turns = {
            group: self._turns.get(group, Turn(now)) for group in (self._wanted or intervals)
        }
        group = min(self._turns, key=lambda name: self._turns[name].due, default=None)
        if group is None:
            self._sleep(PAUSE_S)
            return
        wait_s = self._turns[group].due - now
        if wait_s > 0:
            self._sleep(min(wait_s, PAUSE_S))
            return
        try:
            done = self._refresh(group)
        except Error as error:  # also when a wanted group does not exist any more
            self._report(error)
            self._turns[group] = self._turns[group].after_failure(now, self._now())
        else:
            self._report(done)
            self._turns[group] = Turn(now + intervals.get(group, PAUSE_S))
