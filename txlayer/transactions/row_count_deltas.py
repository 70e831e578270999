"""Growth since the catalog's row counts were published; the planner adds it to them.

Each member counts the rows that it inserts minus those that it deletes since its start, and reports
the counts in its word. The leader adds up the growth since it last published counts. The previous
leader may have counted earlier growth, so a new leader begins with 0. All counts are estimates: the
last second of a member that dies is lost, and so is growth that a leader has not published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

OWN = ""


class Growth:
    """Rows inserted minus rows deleted, by relation, view and index."""

    def __init__(self) -> None:
        self.own: Counter[str] = Counter()
        """The growth of this process since its start."""
        self._said: dict[str, Mapping[str, int]] = {OWN: self.own}
        self._counted: dict[str, Mapping[str, int]] = {OWN: {}}

    def hear(self, said: Mapping[str, Mapping[str, int]]) -> None:
        """Take in the reports of the other members, by their names. The last report of a member
        that has gone stays until it is counted."""
        for name, growth in said.items():
            self._counted.setdefault(name, {})
            self._said[name] = growth
        gone = self._said.keys() - said.keys() - {OWN}
        for name in [name for name in gone if self._said[name] == self._counted[name]]:
            del self._said[name], self._counted[name]

    def since_counted(self) -> Counter[str]:
        """The growth of all members since the last `count`."""
        total: Counter[str] = Counter()
        for name, growth in self._said.items():
            total.update(growth)
            total.subtract(self._counted[name])
        return total

    def count(self) -> None:
        """Note that the catalog's counts include all growth known now."""
        self._counted = {name: dict(growth) for name, growth in self._said.items()}
