"""Check-and-put through Thrift 1, by claims: over a gateway in memory that keeps the rows of one
table, whose calls can be lost, and between whose calls others can act."""

import itertools
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.storage.hbase.cells import stored_value, value_of
from hornbeam_server.storage.hbase.messages import Memory as Stream
from hornbeam_server.storage.hbase.thrift1.claims import Claims
from hornbeam_server.storage.hbase.thrift1.interface import THRIFT
from hornbeam_server.storage.hbase.thrift1.messages import COLUMN, PUTS, REGISTER, Client
from hornbeam_server.storage.ports import NEWEST

ROW = b"k"


class Crashed(Exception):
    """The process ends here."""


class Memory:
    """Stands for `Calls` and for the client of a Thrift 1 gateway, over rows in memory.

    `before` has actions that are done before the next writes, one for each.
    """

    def __init__(self):
        self.columns = defaultdict(dict)
        """Values by their timestamps, of each column of the row."""
        self.before = []
        self.refuse_next_swap = False
        self._time = itertools.count(1_000)

    def full_name(self, table):
        return b"n:" + table.encode()

    def call(self, table, work, *, repeatable=True):
        return work(self, self.full_name(table))

    def getRowWithColumns(self, name, row, columns, attributes):
        found = {c: self._newest(c) for c in columns if self.columns[c]}
        return [THRIFT.TRowResult(row=row, columns=found)] if found else []

    def _newest(self, column, behind=NEWEST):
        ts = max(ts for ts in self.columns[column] if ts < behind)
        return THRIFT.TCell(value=self.columns[column][ts], timestamp=ts)

    def getVerTs(self, name, row, column, behind, count, attributes):
        times = sorted((ts for ts in self.columns[column] if ts < behind), reverse=True)[:count]
        return [THRIFT.TCell(value=self.columns[column][ts], timestamp=ts) for ts in times]

    def deleteAllTs(self, name, row, column, until, attributes):
        self.columns[column] = {ts: v for ts, v in self.columns[column].items() if ts > until}

    def checkAndPut(self, name, row, column, expected, mutation, attributes):
        self._interfere()
        there = self._newest(column).value if self.columns[column] else None
        if there != expected:
            return False
        self.columns[column][next(self._time)] = mutation.value
        refused, self.refuse_next_swap = self.refuse_next_swap, False
        return not refused

    def ask(self, function, call):
        self._interfere()
        puts = decoded(call)
        for batch in puts.rowBatches:
            self.put(batch.mutations[0].value, puts.timestamp)

    def put(self, stored, ts):
        self.columns[COLUMN][ts] = stored

    def _interfere(self):
        if self.before:
            self.before.pop(0)()

    def rows(self):
        return {ts: value_of(stored) for ts, stored in self.columns[COLUMN].items()}


def decoded(call):
    """The arguments of an encoded call of PUTS."""
    protocol = Client(Stream(call))._iprot
    name, _, _ = protocol.read_message_begin()
    assert name == PUTS
    arguments = THRIFT.Hbase.mutateRowsTs_args()
    arguments.read(protocol)
    return arguments


def put(memory, expected, value, ts=1):
    return Claims(memory).check_and_put("t", ROW, expected, value, ts)


def crash():
    raise Crashed


def nothing():
    pass


def test_the_version_is_later_than_the_compared_one():
    memory = Memory()
    memory.put(stored_value(b"a"), 50)
    assert not put(memory, None, b"x")
    assert put(memory, b"a", b"b", 7)
    assert put(memory, b"b", b"", 90)
    assert put(memory, None, b"c", 3)
    assert memory.rows() == {50: b"a", 51: b"b", 90: b"", 91: b"c"}


@pytest.mark.parametrize("writes", [0, 1])
def test_after_a_crash_at_either_write_another_process_finishes_or_finds_nothing(writes):
    """The first write is the claim, the second puts the version."""
    memory = Memory()
    assert put(memory, None, b"a")
    memory.before = [nothing] * writes + [crash]
    with pytest.raises(Crashed):
        put(memory, b"a", b"b")
    assert put(memory, b"a", b"c") == (writes == 0)
    assert put(memory, b"b", b"c") == (writes == 1)
    assert list(memory.rows().values())[-1] == b"c"


def test_a_claim_that_another_process_finishes_is_put_once_with_the_same_bytes():
    memory = Memory()

    def help_and_go_on():
        assert put(memory, b"a", b"b")

    memory.before = [nothing, help_and_go_on]
    assert put(memory, None, b"a")
    assert memory.rows() == {1: b"a", 2: b"b"}


def test_a_value_that_left_and_came_back_is_hidden():
    memory = Memory()
    assert put(memory, None, b"a")

    def away_and_back():
        assert put(memory, b"a", b"b")
        assert put(memory, b"b", b"a")

    memory.before = [away_and_back]
    assert put(memory, b"a", b"ours")
    assert memory.rows() == {1: b"a", 2: b"b", 3: b"a", 4: b"ours"}


@pytest.mark.parametrize("overtaken", [False, True])
def test_a_swap_that_succeeded_but_was_reported_as_refused_counts(overtaken):
    """HBase's own client repeats a comparison whose answer it missed, and finds that it no longer
    holds. Another claim may have been made by then."""
    memory = Memory()
    if overtaken:
        read = memory.getRowWithColumns

        def overtake(*arguments):
            if memory.columns[REGISTER]:
                memory.getRowWithColumns = read
                assert put(memory, b"a", b"b")
            return read(*arguments)

        memory.getRowWithColumns = overtake
    memory.refuse_next_swap = True
    assert put(memory, None, b"a")
    assert memory.rows() == ({1: b"a", 2: b"b"} if overtaken else {1: b"a"})


def test_a_settled_register_finishes_no_claim_again_and_keeps_one_version():
    """A purge drops all versions of a row that ends with a tombstone."""
    memory = Memory()
    assert put(memory, None, b"a")
    assert put(memory, b"a", b"b")
    memory.put(stored_value(b""), 9)
    assert Claims(memory).settled("t", ROW)
    assert len(memory.columns[REGISTER]) == 1
    memory.columns[COLUMN].clear()
    assert put(memory, None, b"c", 20)
    assert memory.rows() == {20: b"c"}


def test_settling_finishes_a_claim_whose_author_has_died():
    memory = Memory()
    memory.before = [nothing, crash]
    with pytest.raises(Crashed):
        put(memory, None, b"a", 5)
    assert memory.rows() == {}
    assert Claims(memory).settled("t", ROW)
    assert memory.rows() == {5: b"a"}


def test_settling_leaves_a_row_with_a_new_claim():
    memory = Memory()
    assert put(memory, None, b"a")
    memory.before = [lambda: put(memory, b"a", b"b")]
    assert not Claims(memory).settled("t", ROW)
    assert memory.rows() == {1: b"a", 2: b"b"}


@given(st.data())
def test_of_several_writers_with_one_expectation_one_succeeds(data):
    """Each writer runs as a whole before some write of the one before it; some die at a write."""
    memory = Memory()
    assert put(memory, None, b"0")
    done, values = [], []

    def write(number):
        value = b"%d" % number
        values.append(value)

        def interfere():
            memory.before = []
            if number < 4:
                write(number + 1)
            if data.draw(st.booleans()):
                crash()

        memory.before = [nothing] * data.draw(st.integers(0, 2)) + [interfere]
        try:
            if put(memory, b"0", value):
                done.append(value)
        except Crashed:
            pass

    write(1)
    memory.before = []
    put(memory, b"no such value", b"x")  # finishes the last claim
    made = list(memory.rows().values())
    assert len(made) <= 2
    assert set(done) <= set(made[1:])
