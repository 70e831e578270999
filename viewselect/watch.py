"""Control of a search for views: its effort, its cuts, its progress, and cancellation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hornbeam_server.schema.errors import StatementTimeout

MAX_EFFORT = 20_000
"""Maximum effort, in relations of the query plans made for cost estimates. Beyond this, the search
only does what it needs to end. TPC-W takes 305; 20 queries of up to 6 relations take some 3 000. A
count, not a time, so that a plan does not depend on the machine."""
MAX_NAMED = 5
"""Maximum statements that a cut names."""

Report = Callable[[float], None]
"""A callback that takes the share of the work that is done, from 0 to 1."""


@dataclass
class Watch:
    """The control of one search; `report` is called in the thread of the search."""

    report: Report = lambda _: None
    effort: int = 0
    stopped: bool = False
    _cuts: dict[str, dict[str, None]] = field(default_factory=dict)

    def stop(self) -> None:
        """Make the search end with an error at its next `check`. Other threads may call this."""
        self.stopped = True

    def check(self) -> None:
        """Raise StatementTimeout after `stop`."""
        if self.stopped:
            raise StatementTimeout("Planning was stopped.", cure="Plan again, with more time.")

    def spend(self, effort: int) -> None:
        self.check()
        self.effort += effort
        self.report(min(1.0, self.effort / MAX_EFFORT))

    @property
    def spent(self) -> bool:
        """Is the effort used up, so that the search must end with its current result?"""
        return self.effort > MAX_EFFORT

    def cut(self, what: str, statement: str = "") -> None:
        """Note that the search was incomplete in `what`, and for which `statement`."""
        names = self._cuts.setdefault(what, {})
        if statement:
            names[statement] = None

    @property
    def cuts(self) -> tuple[str, ...]:
        """The cuts as text, for the plan."""
        return tuple(_words(what, tuple(names)) for what, names in self._cuts.items())


def _words(what: str, names: tuple[str, ...]) -> str:
    if not names:
        return what
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{what} ({', '.join(names[:MAX_NAMED])}{more})"
