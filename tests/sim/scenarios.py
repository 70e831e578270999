"""Which workload meets which faults on how many nodes: drawn from the seed, composed in
`scenarios.toml`."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from hornbeam_server.storage.simulated.chaos import Fault, Profile
from tests.sim.simulation import CLIENTS, Workload
from tests.sim.workload_alter import Altering
from tests.sim.workload_append import ListAppend
from tests.sim.workload_bank import Bank
from tests.sim.workload_bookings import Bookings
from tests.sim.workload_claims import Claims
from tests.sim.workload_cloudtps import CloudTps
from tests.sim.workload_deferred import Deferred
from tests.sim.workload_followed import FollowedLive, FollowedTotals
from tests.sim.workload_list import LinkedList
from tests.sim.workload_live import Live
from tests.sim.workload_load import Loads
from tests.sim.workload_orders import Orders
from tests.sim.workload_random import Random
from tests.sim.workload_schema import ChangingSchema
from tests.sim.workload_tallies import Tallies
from tests.sim.workload_totals import Totals
from tests.sim.workload_wards import Wards

WORKLOADS: Mapping[str, type[Workload]] = {
    "bank": Bank,
    "cloudtps": CloudTps,
    "list": LinkedList,
    "orders": Orders,
    "append": ListAppend,
    "claims": Claims,
    "bookings": Bookings,
    "wards": Wards,
    "random": Random,
    "schema": ChangingSchema,
    "load": Loads,
    "totals": Totals,
    "deferred": Deferred,
    "live": Live,
    "followed": FollowedTotals,
    "followed live": FollowedLive,
    "alter": Altering,
    "tallies": Tallies,
}
_FILE = Path(__file__).with_name("scenarios.toml")
_OPTIONS = {field.name for field in fields(Profile)} - {"rate", "every_s"}
_OF_A_MIX = {"name", "groups", "weight", "clients"}


@dataclass(frozen=True)
class Mix:
    """A fault workload by name, and its number of clients."""

    name: str
    weight: float
    profile: Profile
    clients: int


@dataclass(frozen=True)
class Scenario:
    """The scenario of one seed."""

    seed: int
    workload: str
    mix: Mix
    nodes: int
    """The number of nodes that serve at the same time."""

    @property
    def name(self) -> str:
        return f"{self.workload} × {self.mix.name} × {self.nodes}"


def load_mixes(file: Path = _FILE) -> list[Mix]:
    """Raises ValueError for an unknown fault, KeyError for an unknown group or setting."""
    data = tomllib.loads(file.read_text())
    return [_mix(entry, data["group"]) for entry in data["mix"]]


def load_weights(file: Path = _FILE) -> dict[str, float]:
    """The weight of each workload; 1 by default. Raises KeyError for an unknown workload."""
    given = tomllib.loads(file.read_text()).get("workload", {})
    if unknown := given.keys() - WORKLOADS.keys():
        raise KeyError(*unknown)
    return dict.fromkeys(WORKLOADS, 1) | given


def load_nodes(file: Path = _FILE) -> dict[int, float]:
    """The weight of each number of nodes."""
    given = tomllib.loads(file.read_text())["nodes"]
    return {int(number): weight for number, weight in given.items()}


def _mix(entry: Mapping[str, Any], groups: Mapping[str, Any]) -> Mix:
    if unknown := entry.keys() - _OF_A_MIX - _OPTIONS:
        raise KeyError(*unknown)
    taken = [groups[name] for name in entry["groups"]]
    rate = {_fault(n): v for group in taken for n, v in group.get("rate", {}).items()}
    every_s = {_fault(n): v for group in taken for n, v in group.get("every_s", {}).items()}
    options = {n: tuple(v) if isinstance(v, list) else v for n, v in entry.items() if n in _OPTIONS}
    profile = Profile(rate=rate, every_s=every_s, **options)
    return Mix(entry["name"], entry["weight"], profile, entry.get("clients", CLIENTS))


def _fault(name: str) -> Fault:
    return Fault(name.replace("_", " "))


@cache
def _composed() -> tuple[list[Mix], dict[str, float], dict[int, float]]:
    """The file, read once: mixes, weights of workloads and of numbers of nodes."""
    return load_mixes(), load_weights(), load_nodes()


def scenario(
    seed: int,
    workloads: Sequence[str] = tuple(WORKLOADS),
    mixes: Sequence[str] = (),
    nodes: Sequence[int] = (),
) -> Scenario:
    """The scenario that `seed` draws from the allowed ones (default: all)."""
    known, weight, count_weights = _composed()
    allowed = [mix for mix in known if not mixes or mix.name in mixes]
    rng = random.Random(f"scenario {seed}")
    names = sorted(name for name in workloads if weight[name]) or list(workloads)
    (workload,) = rng.choices(names, [weight[name] or 1 for name in names])
    (mix,) = rng.choices(allowed, [mix.weight for mix in allowed])
    drawn = {number: count_weights[number] for number in nodes} or count_weights
    (count,) = rng.choices(list(drawn), list(drawn.values()))
    return Scenario(seed, workload, mix, count)
