"""When `hornbeam refresh` does the batches of which groups. The nodes do those that they can, and
Spark does the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from hornbeam.errors import Error, InterfaceError, NotSupportedError, ProgrammingError
from hornbeam.transport import Transport, persistently

PAUSE_S, MAX_PAUSE_S = 1.0, 60.0
"""First and maximum seconds between the attempts of a batch that fails."""


SPARK = "Spark"


@dataclass(frozen=True, slots=True)
class Refreshed:
    """A group after a batch. `by`: the node that did it, SPARK, or "" for another process."""

    group: str
    as_of: int
    views: tuple[str, ...]
    changes: int
    rows: int
    seconds: float
    by: str


@dataclass(frozen=True, slots=True)
class Group:
    """A group as the nodes list it. `left`: why they leave its next batch to Spark; "": they do
    it at its interval."""

    interval_s: float
    left: str


@dataclass(frozen=True, slots=True)
class Kept:
    """The groups whose batches the nodes do now, of those that are to be refreshed."""

    groups: tuple[str, ...]


Report = Callable[[Refreshed | Kept | Error], None]
Refresh = Callable[[str], Refreshed]


def listed(node: Transport) -> dict[str, Group]:
    """All groups by name. Raises the client's errors."""
    found: list[dict[str, Any]] = persistently(lambda: node.json("GET", "/v1/groups"))
    return {each["name"]: Group(each["interval_s"], each["left"] or "") for each in found}


def checked(known: Iterable[str], wanted: Sequence[str]) -> Sequence[str]:
    """The groups to refresh. Raises InterfaceError."""
    missing = [name for name in wanted if name not in known]
    if missing:
        raise InterfaceError(
            f"There is no group {', '.join(missing)} of deferred views.\n"
            f"There are: {', '.join(known) or 'none'}."
        )
    return wanted or list(known)


class Batches:
    """Does batches. `spark` begins Spark's session; it is called for the first batch that the nodes
    leave, and the session ends at `close`. `note` shows what is being done."""

    def __init__(
        self,
        node: Transport,
        spark: Callable[[], AbstractContextManager[Refresh]],
        note: Callable[[str], None],
    ) -> None:
        self._node = node
        self._spark = spark
        self._note = note
        self._session: Refresh | None = None
        self._open = ExitStack()

    def refresh(self, group: str) -> Refreshed:
        """Bring a group up to date. Raises the client's errors."""
        self._note(f"{group}: the nodes")
        try:
            return self._by_node(group)
        except NotSupportedError as error:
            if (left := error.problem.get("left")) is None:
                raise
        self._note(f"{group}: Spark, because {left}")
        return self._started(group, left)(group)

    def _by_node(self, group: str) -> Refreshed:
        path = f"/v1/groups/{quote(group, safe='')}/refresh"
        done = persistently(lambda: self._node.json("POST", path, {}))
        shown, last = tuple(done["views"]), done["last"]
        return Refreshed(
            group,
            done["as_of"],
            shown,
            last["changes"],
            last["rows"],
            last["seconds"],
            last["by"],
        )

    def _started(self, group: str, left: str) -> Refresh:
        if self._session is None:
            try:
                self._session = self._open.enter_context(self._spark())
            except (InterfaceError, ProgrammingError) as error:
                reason = f"The nodes leave group {group} to Spark: {left}."
                raise InterfaceError(f"{reason}\n{error}", error.problem) from error
        return self._session

    def close(self) -> None:
        self._open.close()


def each_once(groups: Iterable[str], refresh_one: Refresh, report: Report) -> None:
    """Refresh each group. Raises the error of the last group that failed, after all were tried;
    `report` gets the other errors."""
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
    """Schedules the groups that the nodes leave. A group that fails waits; the others keep their
    times.

    One batch runs at a time, since it uses all of Spark.
    """

    def __init__(
        self,
        groups: Callable[[], Mapping[str, Group]],
        wanted: Sequence[str],
        refresh_one: Refresh,
        report: Report,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`groups` lists all groups. If `wanted` is not empty, only its groups are refreshed."""
        self._groups = groups
        self._wanted = wanted
        self._refresh = refresh_one
        self._report = report
        self._now = now
        self._sleep = sleep
        self._turns: dict[str, Turn] = {}
        self._kept = Kept(())
        self._listing = Turn(now())

    def go_on(self) -> None:
        """Run batches until interrupted. Raises InterfaceError if there is no Spark here."""
        while True:
            began = self._now()
            try:
                groups = self._groups()
            except Error as error:  # no group can be refreshed
                self._report(error)
                self._listing = self._listing.after_failure(began, self._now())
                self._sleep(self._listing.due - self._now())
            else:
                self._listing = Turn(began)
                self._round(groups)

    def _round(self, groups: Mapping[str, Group]) -> None:
        """Run the batch that is due first, or wait for it. New groups are due at once."""
        now = self._now()
        names = self._wanted or list(groups)
        kept = {name for name in names if name in groups and not groups[name].left}
        self._say(Kept(tuple(name for name in names if name in kept)))
        self._turns = {
            group: self._turns.get(group, Turn(now)) for group in names if group not in kept
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
        except InterfaceError:  # no later attempt would find Spark
            raise
        except Error as error:  # also when a wanted group does not exist any more
            self._report(error)
            self._turns[group] = self._turns[group].after_failure(now, self._now())
        else:
            self._report(done)
            interval_s = groups[group].interval_s if group in groups else PAUSE_S
            self._turns[group] = Turn(now + interval_s)

    def _say(self, kept: Kept) -> None:
        """Report which groups the nodes keep, if that has changed."""
        if kept != self._kept:
            self._kept = kept
            self._report(kept)
