"""The workloads of the nemesis, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.nemesis.nemesis_dashboard import Dashboard
from tests.nemesis.nemesis_workloads import Appends, Bank, LinkedList, Shop, Workload

KINDS: Mapping[str, type[Workload]] = {
    "bank": Bank,
    "appends": Appends,
    "list": LinkedList,
    "dashboard": Dashboard,
    "shop": Shop,
}
SHARES = {"bank": 4, "appends": 4, "list": 3, "dashboard": 3, "shop": 2}
"""How many of the sixteen clients each workload has."""
