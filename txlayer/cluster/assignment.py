"""The assignment: the members, the owner of each slot of roots, and the dead nodes.

The assignment is one value of the coordination service, written by the master alone
(`txlayer.cluster.master`). Each member reports in its `Word` which version it has acknowledged.

`next_version` is decision 21's table. Invariants over all versions:
- A slot gets another owner only in two cases: its owner has acknowledged that the slot is leaving;
  or its owner is dead, all members have acknowledged that, and all dead nodes' logs are recovered.
- A member may commit only after all earlier members have acknowledged it, at a version without dead
  nodes. From then on it may commit until it dies.
- The clock never falls, and is at least every clock that was acknowledged before.
- A lane has one owner at most. A member keeps its lane until it dies; another member gets the lane
  when the logs of all dead nodes are recovered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.codec.folds import LANES
from hornbeam_server.txlayer.cluster.balance import NO_OWNER, handed_over, rebalanced

PATH = "assignment"
SLOTS = 256
IDLE_RATE = 60
"""Base weight of a slot, in locks and rows a minute, added to its measured rate. So slots with
little use are divided by number, and random differences move nothing."""


class Member(msgspec.Struct, frozen=True):
    """A member. `name` is new with each session with the coordination service, and is also the name
    of its log. `address` is the URL for clients, `peer` the "host:port" for other members."""

    name: str
    address: str
    peer: str
    commits: bool = False
    """False: the node has joined, and not all other members count its watermark yet."""
    lane: int = 0
    """The lane of its cells of immediate views (`txlayer.commit.lanes`); 0: it has none."""


class Assignment(msgspec.Struct, frozen=True):
    """One version. `members` and `dead` are in the order in which they joined and died."""

    master: str
    members: tuple[Member, ...]
    dead: tuple[Member, ...]
    """Dead members that are not recovered: their logs are to be replayed, and their locks stay."""
    slots: tuple[str, ...]
    """The name of each slot's owner."""
    leaving: dict[int, str]
    """The next owner by slot, for slots that their present owners are to empty of locks."""
    clock: int
    """At least every clock that was acknowledged, and every timestamp in a recovered log."""
    gate_closed: bool
    catalog: int
    """The version of the catalog in force."""

    @classmethod
    def founded(cls, master: str, catalog: int, dead: tuple[Member, ...] = ()) -> Assignment:
        """The first version, without members. `dead` are the nodes that served the database before
        the first assignment."""
        return cls(master, (), dead, (NO_OWNER,) * SLOTS, {}, 0, False, catalog)

    def member(self, name: str) -> Member | None:
        return next((member for member in self.members if member.name == name), None)

    def is_member(self, name: str) -> bool:
        return self.member(name) is not None

    @property
    def names(self) -> set[str]:
        """The names of members, and of dead nodes that are not recovered."""
        return {member.name for member in self.members + self.dead}

    def owner(self, slot: int) -> Member | None:
        return self.member(self.slots[slot])

    def encode(self) -> bytes:
        """The JSON form; slots are {"a": "0-127 130", "b": …}."""
        fields = msgspec.structs.asdict(self)
        fields["slots"] = _by_name(enumerate(self.slots))
        fields["leaving"] = _by_name(self.leaving.items())
        return msgspec.json.encode(fields)

    @classmethod
    def decode(cls, value: bytes) -> Assignment:
        """The assignment in a JSON value. Raises Corruption."""
        try:
            stored = _stored.decode(value)
            slots = dict(_by_slot(stored.slots))
            fields = msgspec.structs.asdict(stored)
            fields["slots"] = tuple(slots[slot] for slot in range(SLOTS))
            fields["leaving"] = dict(_by_slot(stored.leaving))
        except (msgspec.DecodeError, ValueError, KeyError) as error:
            raise Corruption(f"The assignment cannot be read: {error!r}.") from None
        return cls(**fields)


class Word(msgspec.Struct, frozen=True):
    """A report of a member or a joining node about itself: the data of its coordination entry."""

    address: str
    peer: str
    version: int = 0
    """The newest version of the assignment that the node has acknowledged; 0: none."""
    clock: int = 0
    reading: int = 0
    """The oldest catalog version that its queries read; without queries, its version in force."""
    holding: int = 0
    """The oldest snapshot that its queries and transactions read; 0: none."""
    leaves: bool = False
    """The node is stopping: its slots are to be moved away, and it leaves when it owns none."""
    rates: dict[int, int] | None = None
    """Locks granted a minute, by slot that it owns, where there are any. None: not measured since
    it observed the last change of owners in the assignment."""
    wall_ms: int = 0
    """Its wall clock at the time of the report, in milliseconds."""
    replays_above: int = 0
    """Recovery of its log puts no commit at or below this timestamp again."""
    growth: dict[str, int] = {}
    """Rows inserted minus rows deleted by this node, by relation, view and index."""
    newest: int = 0
    """The newest snapshot that the node knows. Later reads begin at no older snapshot, except when
    the client asks for one, which is older by the retention at most."""

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Word | None:
        """The decoded word. None: the data is not a word."""
        try:
            return _word.decode(data)
        except msgspec.DecodeError:
            return None


@dataclass(frozen=True, slots=True)
class Known:
    """The facts that the master knows in addition to the newest assignment."""

    version: int
    """The number of the newest version of the assignment."""
    words: Mapping[str, Word]
    """The words of all nodes with a session, by name."""
    recovered: Mapping[str, int]
    """The highest timestamp in the log of each dead node whose log is fenced and replayed."""
    catalog: int
    """The version of the catalog to put into force when a closed gate is opened."""
    clock: int = 0
    """Minimum clock of the next version."""
    close: bool = False
    """The gate is to be closed."""
    held: bool = False
    """The gate has been shut (`is_shut`) since it was closed. The change behind it may be in force
    already, so the gate is opened with the new catalog or not at all."""
    idle_rate: int = IDLE_RATE


def clock_skews(
    now: Assignment, words: Mapping[str, Word], address: str, wall_ms: int
) -> dict[str, int]:
    """The milliseconds that a clock at `wall_ms` is ahead of each member's clock, by the member's
    address; without `address`, the node of that clock. Words may be a little old."""
    said = [words[member.name] for member in now.members if member.name in words]
    return {w.address: wall_ms - w.wall_ms for w in said if w.wall_ms and w.address != address}


def next_version(now: Assignment, known: Known) -> Assignment:
    """The next version. `now` if nothing is to be changed, or acknowledgements are missing.

    Deaths are written at once. All other changes are written one step at a time, when all members
    have acknowledged `now`.
    """
    following = _deaths(now, known)
    if following == now and has_been_acknowledged(now, known):
        steps = (step(now, known) for step in _STEPS)
        following = next((after for after in steps if after != now), now)
    return following if following == now else replace(following, clock=highest_clock(now, known))


def has_been_acknowledged(now: Assignment, known: Known) -> bool:
    """Have all members acknowledged `now`?"""
    words = [known.words.get(member.name) for member in now.members]
    return all(word is not None and word.version >= known.version for word in words)


def is_shut(now: Assignment, known: Known) -> bool:
    """Is no transaction inside, and are all committed ones applied? The gate is closed only while
    no node is dead, and a death opens it: so no node was dead when this became true."""
    return now.gate_closed and has_been_acknowledged(now, known)


def highest_clock(now: Assignment, known: Known) -> int:
    """The highest clock that was acknowledged or found in a recovered log so far."""
    said = [known.words[m.name].clock for m in now.members if m.name in known.words]
    return max(now.clock, known.clock, *said, *known.recovered.values())


def _deaths(now: Assignment, known: Known) -> Assignment:
    """Death 1: members without a session become dead. A move of slots is withdrawn, and so is a
    schema change that may still wait for a transaction of a dead member."""
    gone = tuple(member for member in now.members if member.name not in known.words)
    if not gone:
        return now
    names = {member.name for member in gone}
    return replace(
        now,
        members=tuple(member for member in now.members if member not in gone),
        dead=now.dead + gone,
        slots=tuple(NO_OWNER if owner in names else owner for owner in now.slots),
        leaving={},
        gate_closed=now.gate_closed and known.held,
    )


def _settled(now: Assignment, known: Known) -> Assignment:
    """Death 2, and the end of a join: when no node is dead, or all are recovered, all members may
    commit and have lanes, and all slots get owners."""
    if not now.members or any(member.name not in known.recovered for member in now.dead):
        return now
    members = tuple(replace(member, commits=True) for member in _with_lanes(now.members))
    slots = now.slots
    if NO_OWNER in slots:
        given = handed_over(slots, _staying(now, known), _weights(now, known))
        slots = tuple(owner or new for owner, new in zip(slots, given, strict=True))
    return replace(now, members=members, dead=(), slots=slots)


def _with_lanes(members: Iterable[Member]) -> Iterator[Member]:
    """The members, with free lanes for those without a lane, as far as there are any."""
    members = tuple(members)
    taken = {member.lane for member in members}
    free = (lane for lane in LANES if lane not in taken)
    for member in members:
        yield member if member.lane else replace(member, lane=next(free, 0))


def _joined(now: Assignment, known: Known) -> Assignment:
    """Nodes with a word become members. A node that has acknowledged a version and is no member was
    a member: it is recovered, and has not noticed. It must not come back."""
    taken = now.names
    joining = tuple(
        Member(name, word.address, word.peer)
        for name, word in sorted(known.words.items())
        if name not in taken and word.version == 0 and not word.leaves
    )
    return replace(now, members=now.members + joining)


def _gate(now: Assignment, known: Known) -> Assignment:
    if now.dead or now.gate_closed == known.close:
        return now
    return replace(
        now, gate_closed=known.close, catalog=now.catalog if known.close else known.catalog
    )


def _moved(now: Assignment, _: Known) -> Assignment:
    if not now.leaving:
        return now
    slots = tuple(now.leaving.get(slot, owner) for slot, owner in enumerate(now.slots))
    return replace(now, slots=slots, leaving={})


def _leaving(now: Assignment, known: Known) -> Assignment:
    """Slots begin to move, but not while the gate is closed: a transaction that waits there may
    hold a lock that would have to be freed."""
    if now.dead or now.gate_closed:
        return now
    by_load = measured(now, known) is not None
    new = _owners(now.slots, _staying(now, known), _weights(now, known), by_load=by_load)
    changed = (slot for slot, owner in enumerate(now.slots) if owner != new[slot])
    return replace(now, leaving={slot: new[slot] for slot in changed})


def measured(now: Assignment, known: Known) -> dict[int, int] | None:
    """The rates of all slots, as `Word.rates`; None while an owner of slots has not measured yet.
    When all members have acknowledged `now`, all rates were measured under the present owners."""
    rates: dict[int, int] = {}
    for name in set(now.slots) - {NO_OWNER}:
        word = known.words.get(name)
        if word is None or word.rates is None:
            return None
        rates |= word.rates
    return rates


_owners = lru_cache(maxsize=8)(rebalanced)
"""Cached: the master asks on every look, mostly with the same arguments."""


def _weights(now: Assignment, known: Known) -> tuple[int, ...]:
    rates = measured(now, known) or {}
    return tuple([known.idle_rate + rates.get(slot, 0) for slot in range(SLOTS)])


def _staying(now: Assignment, known: Known) -> tuple[str, ...]:
    return tuple(m.name for m in now.members if not known.words[m.name].leaves)


_STEPS = (_settled, _joined, _gate, _moved, _leaving)


class _Stored(msgspec.Struct):
    """The JSON form of an assignment."""

    master: str
    members: tuple[Member, ...]
    dead: tuple[Member, ...]
    slots: dict[str, str]
    leaving: dict[str, str]
    clock: int
    gate_closed: bool
    catalog: int


_stored = msgspec.json.Decoder(_Stored)
_word = msgspec.json.Decoder(Word)


def _by_name(slots: Iterable[tuple[int, str]]) -> dict[str, str]:
    named: defaultdict[str, list[int]] = defaultdict(list)
    for slot, name in slots:
        named[name].append(slot)
    return {name: " ".join(_ranges(sorted(numbers))) for name, numbers in sorted(named.items())}


def _by_slot(named: dict[str, str]) -> Iterator[tuple[int, str]]:
    for name, ranges in named.items():
        for text in ranges.split():
            first, _, last = text.partition("-")
            for slot in range(int(first), int(last or first) + 1):
                yield slot, name


def _ranges(numbers: list[int]) -> Iterator[str]:
    """The ranges of a sorted list: 1 2 3 7 is 1-3 7."""
    ends = [n for n, after in zip(numbers, [*numbers[1:], None], strict=True) if after != n + 1]
    starts = [n for n, before in zip(numbers, [None, *numbers], strict=False) if before != n - 1]
    for first, last in zip(starts, ends, strict=True):
        yield str(first) if first == last else f"{first}-{last}"
