"""The load of each slot: the locks that its owner grants in it, and the changed rows that it
applies to live and deferred views of the slot, per minute.

A counter per slot is raised with each lock and each row. Every `MEASURED_S` or more, the counts
become rates. A rate is the mean of the fresh rate and the previous one, so that old counts fade.
Rates measured under other owners predict little, and are not comparable with those of other
members. So all measurement begins again when slots change owners.
"""

from __future__ import annotations

from collections.abc import Mapping

from hornbeam_server.storage.ports import Clock
from hornbeam_server.txlayer.cluster.assignment import SLOTS
from hornbeam_server.txlayer.cluster.membership_view import slot_of
from hornbeam_server.txlayer.locking.locks import LockName

MEASURED_S = 5.0


class SlotRates:
    """The rates of the slots of one member."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        self._counted = [0] * SLOTS
        self._rates: dict[int, int] | None = None
        self._since = self._clock.monotonic()

    def count(self, name: LockName, times: int = 1) -> None:
        """Count the grant of a lock, or `times` rows."""
        self._counted[slot_of(name)] += times

    def newest(self) -> Mapping[int, int] | None:
        """Locks and rows a minute, by slot, without slots whose rate is 0. None: not measured for
        long enough."""
        passed_s = self._clock.monotonic() - self._since
        if passed_s >= MEASURED_S:
            self._rates = self._measured(passed_s)
            self._counted = [0] * SLOTS
            self._since += passed_s
        return self._rates

    def _measured(self, passed_s: float) -> dict[int, int]:
        fresh = [round(60 * count / passed_s) for count in self._counted]
        if self._rates is not None:
            fresh = [(rate + self._rates.get(slot, 0)) // 2 for slot, rate in enumerate(fresh)]
        return {slot: rate for slot, rate in enumerate(fresh) if rate}
