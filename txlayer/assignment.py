"""The assignment: who are members, who of them owns which slots of roots, who is dead.

One value of the coordination service, written by the master alone (`txlayer.master`). Each member
says in a `Word` of its own which version of it is acknowledged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from schema.errors import Corruption

PATH = "assignment"
SLOTS = 256
NOBODY = ""
"""Owner of a slot that has none: at first, and while who owned it is dead and not recovered."""


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
    def founded(cls, master: str, catalog: int) -> Assignment:
        """The first: nobody is a member."""
        return cls(master, (), (), (NOBODY,) * SLOTS, {}, 0, False, catalog)

    def member(self, name: str) -> Member | None:
        return next((member for member in self.members if member.name == name), None)

    def is_member(self, name: str) -> bool:
        return self.member(name) is not None

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
    """The oldest snapshot that its queries read; 0: none."""
    leaves: bool = False
    """It is being stopped: its slots are to be moved away, and when it owns none it goes."""

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Word | None:
        """None: whoever shows this says nothing."""
        try:
            return _word.decode(data)
        except msgspec.DecodeError:
            return None


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
