"""Proof that the log loses nothing silently: every way to damage a log of 100 records.

Two owners wrote it as committers do, and both crashed: each left some sealed segments and an open
one. `expected` says what must be read of damaged bytes, from nothing but where each frame was
written. It never lets a reader go on behind damage, nor stop before it. The only loss that no
reader can notice is that of whole appends at the very end of what an owner wrote; if a machine's
crash lost them, they were never synced, so no client had an acknowledgement.
"""

import asyncio
from dataclasses import dataclass
from itertools import permutations
from random import Random

import msgspec
import pytest

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.log.format import encode_append, segment_name
from hornbeam_server.storage.log.records import Batch, Checkpoint, Commit, commits, decode, encode
from hornbeam_server.storage.log.segments import SegmentedLog
from hornbeam_server.storage.ports import START, TOMBSTONE, Position, Put
from hornbeam_server.storage.simulated.files import SimulatedDisk, SimulatedFile, SimulatedFiles
from hornbeam_server.txlayer.commit.recovery import recover
from hornbeam_server.txlayer.transactions.outcomes import TABLE as OUTCOMES
from tests.depth import depth
from tests.txlayer.txlayer_world import TABLE, MemoryStore

SEGMENT_BYTES = 1_700
FLIPPED = depth(5, long=1)
"""Every fifth bit flips: one or two of each byte, at every place in a byte."""
EPOCHS = {1: range(40), 2: range(40, 100)}
VIEW = "v.t.0"


@dataclass(frozen=True)
class Frame:
    """The place of a record; `first` if it begins an append."""

    begin: int
    end: int
    first: bool
    payload: bytes


@dataclass(frozen=True)
class Segment:
    epoch: int
    sequence: int
    data: bytes
    frames: tuple[Frame, ...]

    @property
    def name(self):
        return segment_name(self.epoch, self.sequence)

    @property
    def sealed(self):
        return self.frames[-1].end < len(self.data)

    @property
    def header(self):
        return self.frames[0].begin

    def records(self, frames):
        return [(Position(self.epoch, self.sequence, f.end), f.payload) for f in frames]


# ------------------------------------------------------------ writing


def batch(number, random):
    """A commit of a row, its view row and its outcome; every seventh deletes the row."""
    key = b"%d" % random.randrange(20)
    row = TOMBSTONE if number % 7 == 6 else b"row %d" % number
    identity = Random(number).randbytes(16)
    commit = Commit(
        identity,
        7,
        {TABLE: [Put(key, row)], VIEW: [Put(key, row[:3])], OUTCOMES: [Put(identity, b"done")]},
        [("t", None, row)],
    )
    return encode(Batch(1_000 + number, [msgspec.Raw(encode(commit))]))


async def opened(disk, epoch):
    async def carry(operation):
        return operation.apply()

    files = SimulatedFiles(disk, "a", carry=carry)
    return await SegmentedLog.open(files, "a", epoch, segment_bytes=SEGMENT_BYTES)


async def written():
    random, disk, frames = Random(10), SimulatedDisk(), {}
    position = START
    for epoch, numbers in EPOCHS.items():
        log, waiting = await opened(disk, epoch), []
        for number in numbers:
            checkpoint = number == numbers[0] or number % 10 == 5
            record = Checkpoint(position, 1_000 + number, 7) if checkpoint else None
            waiting.append(encode(record) if record is not None else batch(number, random))
            several = random.random() < 0.2 or number in numbers[-3:]
            if several and number != numbers[-1]:
                continue  # appended together with the next
            position = await log.append(waiting)
            begin = position.offset - sum(8 + len(payload) for payload in waiting)
            inside = frames.setdefault(position[:2], [])
            for payload in waiting:
                end = begin + 8 + len(payload)
                inside.append(Frame(begin, end, payload is waiting[0], payload))
                begin = end
            waiting = []
    return [
        Segment(*place, bytes(disk.files("a")[segment_name(*place)].data), tuple(inside))
        for place, inside in sorted(frames.items())
    ]


SEGMENTS = asyncio.run(written())
OPEN = [segment for segment in SEGMENTS if not segment.sealed]
BEHIND = (SEGMENTS[-1].epoch, SEGMENTS[-1].sequence + 1)
WHOLE = [record for segment in SEGMENTS for record in segment.records(segment.frames)]


def test_the_log_has_the_shape_that_these_tests_need():
    assert len(WHOLE) == 100
    assert [s.sealed for s in SEGMENTS] == [True, True, False, True, True, True, False]
    assert all(len([f for f in s.frames if f.first]) > 4 for s in SEGMENTS)
    assert all(not s.frames[-1].first for s in OPEN)


# ------------------------------------------------------------ reading


def expected(segment, data):
    """The frames of `segment` that must be read when it holds `data`; None: corruption."""
    if data == segment.data:
        return list(segment.frames)
    if segment.sealed:
        return None  # another segment follows, so it was sealed and must be unchanged

    def intact(begin, end):
        return end <= len(data) and data[begin:end] == segment.data[begin:end]

    kept = []
    if intact(0, segment.header):
        for frame in segment.frames:
            if not intact(frame.begin, frame.end):
                break
            kept.append(frame)
    following = segment.frames[len(kept) :]
    return None if any(f.first and intact(f.begin, f.end) for f in following) else kept


class Torture:
    """A log whose files are changed behind its back."""

    def __init__(self, disk, log):
        self.files = disk.files("a")
        self.log = log

    @classmethod
    async def begin(cls, epoch=9):
        disk = SimulatedDisk()
        torture = cls(disk, None)
        for segment in SEGMENTS:
            torture.put(segment.name, segment.data)
        torture.log = await opened(disk, epoch)
        return torture

    def put(self, name, data):
        self.files[name] = SimulatedFile(bytearray(data), len(data), True)

    async def read(self, start=START):
        """(records, the position of the corruption behind them or "")."""
        found = []
        try:
            async for record in self.log.read(start):
                found.append(record)  # noqa: PERF401 (kept when reading fails)
        except Corruption as error:
            return found, error.details["position"]
        return found, ""

    async def check(self, segment, data):
        """With `data` in place of `segment`, check that exactly the right records are read and the
        other bytes counted, or that the damage is reported with its position."""
        self.put(segment.name, data)
        torn = self.log.torn_bytes
        found, damaged = await self.read(Position(segment.epoch, segment.sequence, 0))
        kept = expected(segment, data)
        if kept is None:
            assert damaged.startswith(f"{segment.name}:")
            assert found == []
        else:
            behind = SEGMENTS[SEGMENTS.index(segment) + 1 :]
            rest = [record for other in behind for record in other.records(other.frames)]
            assert (found, damaged) == (segment.records(kept) + rest, "")
            readable = kept[-1].end if kept else segment.header
            readable = readable if data[: segment.header] == segment.data[: segment.header] else 0
            assert self.log.torn_bytes - torn == (0 if segment.sealed else len(data) - readable)
        self.put(segment.name, segment.data)
        return kept


every_segment = pytest.mark.parametrize("segment", SEGMENTS, ids=lambda segment: segment.name)


@every_segment
async def test_every_truncation(segment):
    torture = await Torture.begin()
    for cut in range(len(segment.data) + 1):
        kept = await torture.check(segment, segment.data[:cut])
        whole = [frame for frame in segment.frames if frame.end <= cut]
        assert kept == (None if segment.sealed and cut < len(segment.data) else whole)


@every_segment
async def test_flipped_bits_of_every_byte(segment):
    torture = await Torture.begin()
    last = max(frame.begin for frame in segment.frames if frame.first)
    for number in range(0, 8 * len(segment.data), FLIPPED):
        offset, bit = divmod(number, 8)
        data = bytearray(segment.data)
        data[offset] ^= 1 << bit
        kept = await torture.check(segment, bytes(data))
        assert (kept is None) == (segment.sealed or offset < last)


@every_segment
@pytest.mark.parametrize("size", [512, 4096])
async def test_zeros_in_place_of_a_page(segment, size):
    torture = await Torture.begin()
    for begin in range(0, len(segment.data), 64):
        page = bytes(len(segment.data[begin : begin + size]))
        data = segment.data[:begin] + page + segment.data[begin + size :]
        await torture.check(segment, data)


@every_segment
async def test_tails_of_other_segments_are_no_records(segment):
    """Such a tail is what a block held before it belonged to this file, or the rest after a lost
    piece."""
    torture = await Torture.begin()
    cuts = [segment.header, *(frame.end for frame in segment.frames)]
    begins = {s.name: [0, *(frame.begin for frame in s.frames)] for s in SEGMENTS}
    for cut in (*cuts, cuts[-1] - 1, cuts[-2] + 3):
        for other in SEGMENTS:
            for begin in begins[other.name]:
                if other is not segment or begin != cut:
                    await torture.check(segment, segment.data[:cut] + other.data[begin:])


async def test_every_truncation_with_an_append_behind_it():
    """No writer goes on behind a torn append; if one did, readers would report corruption."""
    torture, last = await Torture.begin(), SEGMENTS[-1]
    name, start = last.name, Position(last.epoch, last.sequence, 0)
    boundaries = {last.header, *(frame.end for frame in last.frames)}
    for cut in range(last.header, len(last.data)):
        later = b"".join(encode_append([b"later"], last.epoch, last.sequence, cut))
        if cut + 1 in boundaries and later[:1] == last.data[cut : cut + 1]:
            continue  # the missing byte is there again, and no frame is torn
        torture.put(name, last.data[:cut] + later)
        found, damaged = await torture.read(start)
        if cut in boundaries:
            whole = [frame for frame in last.frames if frame.end <= cut]
            end = Position(last.epoch, last.sequence, cut + len(later))
            assert (found, damaged) == ([*last.records(whole), (end, b"later")], "")
        else:
            torn = max(boundary for boundary in boundaries if boundary < cut)
            assert (found, damaged) == ([], f"{name}:{torn}")


async def test_the_next_owner_reads_past_every_truncation():
    last = SEGMENTS[-1]
    for cut in range(len(last.data) + 1):
        torture = await Torture.begin(epoch=3)
        torture.put(last.name, last.data[:cut])
        end = await torture.log.append([b"later"])
        lost = sum(frame.end > cut for frame in last.frames)
        kept = WHOLE[: len(WHOLE) - lost]
        assert await torture.read() == ([*kept, (end, b"later")], "")


# ------------------------------------------------------------ whole segments


def before(segment):
    return [record for s in SEGMENTS[: SEGMENTS.index(segment)] for record in s.records(s.frames)]


@every_segment
async def test_a_missing_segment(segment):
    """A missing first segment counts as dropped, and an owner's last as never written; a reader
    that starts within it gets an error."""
    torture = await Torture.begin()
    del torture.files[segment.name]
    index = SEGMENTS.index(segment)
    behind = [r for s in SEGMENTS[index + 1 :] for r in s.records(s.frames)]
    if segment is SEGMENTS[0] or segment in OPEN:
        assert await torture.read() == (before(segment) + behind, "")
    else:
        assert await torture.read() == ([], f"{segment.name}:0")
    within = Position(segment.epoch, segment.sequence, segment.frames[1].end)
    assert await torture.read(within) == ([], f"{segment.name}:0")


async def test_a_segment_in_place_of_another():
    torture = await Torture.begin()
    for there, copied in permutations(SEGMENTS, 2):
        torture.put(there.name, copied.data)
        assert await torture.read() == (before(there), f"{there.name}:0")
        torture.put(copied.name, there.data)  # swapped
        first = min(there, copied, key=SEGMENTS.index)
        assert await torture.read() == (before(first), f"{first.name}:0")
        torture.put(there.name, there.data)
        torture.put(copied.name, copied.data)


@every_segment
async def test_a_duplicated_segment(segment):
    torture = await Torture.begin()
    for epoch, sequence in (BEHIND, (3, 1)):
        name = segment_name(epoch, sequence)
        torture.put(name, segment.data)
        found, damaged = await torture.read()
        del torture.files[name]
        follows = SEGMENTS[-1].name if (epoch, sequence) == BEHIND else name
        # The last segment was open, so a segment behind it is noticed before it is read.
        assert (found, damaged.split(":")[0]) == (WHOLE[: len(found)], follows)
        assert len(found) == len(WHOLE) - (len(SEGMENTS[-1].frames) if follows != name else 0)


# ------------------------------------------------------------ recovery


def stored(payloads, store=None):
    """The cells after these records are put into a store, in order."""
    cells = {} if store is None else store
    for payload in payloads:
        record = decode(payload)
        for commit in commits(record) if isinstance(record, Batch) else ():
            for table, puts in commit.writes.items():
                cells.setdefault(table, {}).update({(p.key, record.ts): p.value for p in puts})
    return cells


def left_by_crash(records, random):
    """The store as a crash leaves it: all before the last checkpoint, and some rows of the rest."""
    positions = [decode(p).applied_upto for _, p in records if isinstance(decode(p), Checkpoint)]
    upto = positions[-1] if positions else START
    cells = stored(payload for position, payload in records if position <= upto)
    rest = stored(payload for position, payload in records if position > upto)
    for table, rows in rest.items():
        kept = {place: value for place, value in rows.items() if random.random() < 0.5}
        cells.setdefault(table, {}).update(kept)
    return cells


async def test_five_recoveries_give_the_same_bytes():
    """A crash leaves the store and a log that ends at or inside each frame. Each recovery reads the
    same log, and starts with the store that the recovery before has left, whole or after another
    crash."""
    last, random = SEGMENTS[-1], Random(11)
    for cut in sorted({cut for f in last.frames for cut in (f.begin, f.begin + 9, f.end)}):
        lost = sum(frame.end > cut for frame in last.frames)
        records = WHOLE[: len(WHOLE) - lost]
        cells, expected_cells = left_by_crash(records, random), stored(p for _, p in records)
        for _ in range(5):
            torture = await Torture.begin()
            torture.put(last.name, last.data[:cut])
            store = MemoryStore(cells)
            recovered = await recover(store, torture.log)
            assert recovered.last_ts == max(decode_ts(payload) for _, payload in records)
            assert store.durable == expected_cells
            cells = random.choice([store.cells, store.after_crash(random).cells])
        (_, checkpoint) = (await torture.read(recovered.position))[0][-1]
        assert decode(checkpoint).applied_upto == recovered.position


def decode_ts(payload):
    record = decode(payload)
    return record.ts if isinstance(record, Batch) else record.hlc
