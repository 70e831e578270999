"""How many rows have come since the catalog's row counts were made: what planning adds to them.

Each member counts what it inserts less what it deletes from its beginning on, and says so in its
word. Who leads adds up what has come since it counted last. What came before it led, the leader
before may have counted, so that it begins with nothing. All this is an estimate: what a member did
in its last second is lost with it, and with the leader what it had not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

OWN = ""


class Growth:
    """Per relation, view and index."""

    def __init__(self) -> None:
        self.own: Counter[str] = Counter()
        """Of this process, from its beginning on."""
        self._said: dict[str, Mapping[str, int]] = {OWN: self.own}
        self._counted: dict[str, Mapping[str, int]] = {OWN: {}}

    def hear(self, said: Mapping[str, Mapping[str, int]]) -> None:
        """What the other members have inserted less deleted, by their names; what those that have
        gone said last is kept until it is counted."""
        for name, growth in said.items():
            self._counted.setdefault(name, {})
            self._said[name] = growth
        gone = self._said.keys() - said.keys() - {OWN}
        for name in [name for name in gone if self._said[name] == self._counted[name]]:
            del self._said[name], self._counted[name]

    def since_counted(self) -> Counter[str]:
        """Rows inserted less rows deleted."""
        total: Counter[str] = Counter()
        for name, growth in self._said.items():
            total.update(growth)
            total.subtract(self._counted[name])
        return total

    def count(self) -> None:
        """The catalog's counts hold all that is known of by now."""
        self._counted = {name: dict(growth) for name, growth in self._said.items()}
