"""The assignment: who are members, who of them owns which slots of roots, who is dead.

One value of the coordination service, written by the master alone (`txlayer.master`). Each member
says in a `Word` of its own which version of it is acknowledged.

`next_version` is decision 21's table. Invariants over all versions:
- A slot gets another owner only when the one that it had has acknowledged that it is leaving, or is
  dead, all members have acknowledged that, and the logs of all the dead are recovered.
- A member may commit only from a version on that all members before it have acknowledged it, and
  nobody was dead. Once it may, it may until it dies.
- The clock never falls, and is at least every clock that was acknowledged before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from schema.errors import Corruption
from txlayer.balance import NOBODY, handed_over, rebalanced

PATH = "assignment"
SLOTS = 256
IDLE_RATE = 60
"""What a slot weighs besides the locks that are granted in it, in locks a minute: slots that are
hardly used are divided by number, and a difference that is only chance moves nothing."""


class Member(msgspec.Struct, frozen=True):
    """`name` is new with each session with the coordination service, and its log's, too.
    `address` is the URL for clients, `peer` the "host:port" for other members."""

    name: str
    address: str
    peer: str
    commits: bool = False
    """False: it has joined, and not all others count its watermark yet."""


class Assignment(msgspec.Struct, frozen=True):
    """One version. Members and the dead are in the order in which they joined and died."""

    master: str
    members: tuple[Member, ...]
    dead: tuple[Member, ...]
    """And not recovered: their logs are to be replayed, the locks that they held stay."""
    slots: tuple[str, ...]
    """The owner's name of each."""
    leaving: dict[int, str]
    """Slots that their owners are to empty of locks, and who owns them next."""
    clock: int
    """At least every clock that was acknowledged, and every timestamp in a recovered log."""
    gate_closed: bool
    catalog: int
    """The version in force."""

    @classmethod
    def founded(cls, master: str, catalog: int, dead: tuple[Member, ...] = ()) -> Assignment:
        """The first: nobody is a member. `dead` are those who served the database before there was
        any assignment."""
        return cls(master, (), dead, (NOBODY,) * SLOTS, {}, 0, False, catalog)

    def member(self, name: str) -> Member | None:
        return next((member for member in self.members if member.name == name), None)

    def is_member(self, name: str) -> bool:
        return self.member(name) is not None

    @property
    def names(self) -> set[str]:
        """Of members, and of the dead that are not recovered."""
        return {member.name for member in self.members + self.dead}

    def owner(self, slot: int) -> Member | None:
        return self.member(self.slots[slot])

    def encode(self) -> bytes:
        """JSON; slots as {"a": "0-127 130", "b": …}."""
        fields = msgspec.structs.asdict(self)
        fields["slots"] = _by_name(enumerate(self.slots))
        fields["leaving"] = _by_name(self.leaving.items())
        return msgspec.json.encode(fields)

    @classmethod
    def decode(cls, value: bytes) -> Assignment:
        """Raises Corruption."""
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
    """What a member says of itself, or who would be one: the data of its coordination entry."""

    address: str
    peer: str
    version: int = 0
    """The newest of the assignment that it has acknowledged; 0: none."""
    clock: int = 0
    reading: int = 0
    """The oldest version of the catalog that its queries read, else the one it has in force."""
    holding: int = 0
    """The oldest snapshot that its queries and transactions read; 0: none."""
    leaves: bool = False
    """It is being stopped: its slots are to be moved away, and when it owns none it goes."""
    rates: dict[int, int] | None = None
    """Locks that it grants a minute in each of its slots, where there are any; None: not measured
    since the newest version of the assignment with other owners that it has seen."""
    wall_ms: int = 0
    """What its wall clock showed when it said this."""
    replays_above: int = 0
    """Recovery of its log puts nothing again that was committed at or below this."""
    growth: dict[str, int] = {}
    """Rows that it has inserted less those that it has deleted, per relation, view and index."""
    newest: int = 0
    """The newest snapshot that it knows: what it begins to read later is no older, or was asked
    for and is no older by more than the retention."""

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Word | None:
        """None: whoever shows this says nothing."""
        try:
            return _word.decode(data)
        except msgspec.DecodeError:
            return None


@dataclass(frozen=True, slots=True)
class Known:
    """What the master knows besides the newest version of the assignment."""

    version: int
    """Its number."""
    words: Mapping[str, Word]
    """Of everybody who has a session."""
    recovered: Mapping[str, int]
    """Who has died and whose log is fenced and replayed; the highest timestamp in it."""
    catalog: int
    """That is to be in force when a closed gate is opened."""
    clock: int = 0
    """That the next version must not be below."""
    close: bool = False
    """The gate is asked to be closed."""
    held: bool = False
    """The gate has been shut (`is_shut`) since it was closed. What is done behind it may be in
    force already, so that it is opened with the new catalog or not at all."""
    idle_rate: int = IDLE_RATE


def clock_skews(
    now: Assignment, words: Mapping[str, Word], address: str, wall_ms: int
) -> dict[str, int]:
    """By how many milliseconds a clock that shows `wall_ms` is ahead of the members', by their
    addresses; but for `address`, whose clock it is. Words are some moments old."""
    said = [words[member.name] for member in now.members if member.name in words]
    return {w.address: wall_ms - w.wall_ms for w in said if w.wall_ms and w.address != address}


def next_version(now: Assignment, known: Known) -> Assignment:
    """`now` if nothing is to be changed, or everybody's word has to be waited for.

    Deaths are written at once. All else, one step at a time, when all have acknowledged `now`.
    """
    following = _deaths(now, known)
    if following == now and has_been_acknowledged(now, known):
        steps = (step(now, known) for step in _STEPS)
        following = next((after for after in steps if after != now), now)
    return following if following == now else replace(following, clock=highest_clock(now, known))


def has_been_acknowledged(now: Assignment, known: Known) -> bool:
    """By all members."""
    words = [known.words.get(member.name) for member in now.members]
    return all(word is not None and word.version >= known.version for word in words)


def is_shut(now: Assignment, known: Known) -> bool:
    """Is no transaction inside, and all that were committed are applied? The gate is closed only
    while nobody is dead, and a death opens it: so nobody was dead when this became true."""
    return now.gate_closed and has_been_acknowledged(now, known)


def highest_clock(now: Assignment, known: Known) -> int:
    """The highest clock that was acknowledged, or found in a recovered log, so far."""
    said = [known.words[m.name].clock for m in now.members if m.name in known.words]
    return max(now.clock, known.clock, *said, *known.recovered.values())


def _deaths(now: Assignment, known: Known) -> Assignment:
    """Death 1: whoever has no session any more. A move is withdrawn, and so is a change of the
    schema that may still wait for a transaction of the dead."""
    gone = tuple(member for member in now.members if member.name not in known.words)
    if not gone:
        return now
    names = {member.name for member in gone}
    return replace(
        now,
        members=tuple(member for member in now.members if member not in gone),
        dead=now.dead + gone,
        slots=tuple(NOBODY if owner in names else owner for owner in now.slots),
        leaving={},
        gate_closed=now.gate_closed and known.held,
    )


def _settled(now: Assignment, known: Known) -> Assignment:
    """Death 2, and joined: nobody is dead, or all are recovered. So all members may commit, and
    slots have owners."""
    if not now.members or any(member.name not in known.recovered for member in now.dead):
        return now
    members = tuple(replace(member, commits=True) for member in now.members)
    slots = now.slots
    if NOBODY in slots:
        given = handed_over(slots, _staying(now, known), _weights(now, known))
        slots = tuple(owner or new for owner, new in zip(slots, given, strict=True))
    return replace(now, members=members, dead=(), slots=slots)


def _joined(now: Assignment, known: Known) -> Assignment:
    """Who has acknowledged something and is no member was one: it is recovered, and has not
    noticed. It must not come back."""
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
    """Not while the gate is closed: who waits there may hold a lock that would have to be freed."""
    if now.dead or now.gate_closed:
        return now
    by_load = measured(now, known) is not None
    new = _owners(now.slots, _staying(now, known), _weights(now, known), by_load=by_load)
    changed = (slot for slot, owner in enumerate(now.slots) if owner != new[slot])
    return replace(now, leaving={slot: new[slot] for slot in changed})


def measured(now: Assignment, known: Known) -> dict[int, int] | None:
    """Of all slots, as `Word.rates`; None while anybody who owns some has not measured yet. When
    all have acknowledged `now`, all of it was measured under the owners that there are."""
    rates: dict[int, int] = {}
    for name in set(now.slots) - {NOBODY}:
        word = known.words.get(name)
        if word is None or word.rates is None:
            return None
        rates |= word.rates
    return rates


_owners = lru_cache(maxsize=8)(rebalanced)
"""The master asks at every look, and mostly the same as before."""


def _weights(now: Assignment, known: Known) -> tuple[int, ...]:
    rates = measured(now, known) or {}
    return tuple([known.idle_rate + rates.get(slot, 0) for slot in range(SLOTS)])


def _staying(now: Assignment, known: Known) -> tuple[str, ...]:
    return tuple(m.name for m in now.members if not known.words[m.name].leaves)


_STEPS = (_settled, _joined, _gate, _moved, _leaving)


class _Stored(msgspec.Struct):
    """An assignment as JSON has it."""

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
    """Of a sorted list: 1 2 3 7 is 1-3 7."""
    ends = [n for n, after in zip(numbers, [*numbers[1:], None], strict=True) if after != n + 1]
    starts = [n for n, before in zip(numbers, [None, *numbers], strict=False) if before != n - 1]
    for first, last in zip(starts, ends, strict=True):
        yield str(first) if first == last else f"{first}-{last}"
