"""The cycle checker against a brute-force oracle, correct stores, and planted faults."""

from dataclasses import replace
from itertools import pairwise, permutations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.checkers.append_engine import KEYS, Action, Engine
from tests.checkers.list_append import Append, Read, Transaction
from tests.checkers.serializable import check, kinds
from tests.depth import depth

PROCESSES = 3
WRITE_SKEW = {"G2-item", "G2-item-session", "G2-item-realtime"}


# ---- the oracle: searches for a serial order that gives the same answers


def must_precede(a, b):
    """Whether the promised orders put `a` before `b`."""
    over = a.completed if a.outcome == "ok" else None
    if over is not None and over < b.invoked:
        if b.kind == "write" and a.shared_roots() & b.shared_roots():
            return True
        if b.strong and a.kind == "write":
            return True
        if b.bookmark and a.process == b.process:
            return True
    at, then = timestamp(a), timestamp(b)
    return at is not None and then is not None and at < then


def timestamp(transaction):
    if transaction.kind == "write":
        return None if transaction.commit_ts is None else (transaction.commit_ts, 0)
    return None if transaction.snapshot_ts is None else (transaction.snapshot_ts, 1)


def answers_the_same(order):
    state = dict.fromkeys(KEYS, ())
    for transaction in order:
        for op in transaction.operations:
            if isinstance(op, Append):
                state[op.key] += (op.value,)
            elif op.values is not None and op.values != state[op.key]:
                return False
    return True


def is_serializable(history):
    """Whether some order explains all reads; unknown transactions may be left out."""
    certain = [t for t in history if t.outcome == "ok"]
    unknown = [t for t in history if t.outcome == "unknown"]
    for chosen in range(1 << len(unknown)):
        happened = certain + [t for i, t in enumerate(unknown) if chosen >> i & 1]
        for order in permutations(happened):
            in_order = not any(
                must_precede(later, earlier)
                for i, later in enumerate(order)
                for earlier in order[:i]
            )
            if in_order and answers_the_same(order):
                return True
    return False


@st.composite
def small_histories(draw):
    """Up to five transactions with possible reads, at times that overlap."""
    shapes = draw(
        st.lists(
            st.lists(st.tuples(st.booleans(), st.sampled_from("xy")), min_size=1, max_size=3),
            min_size=2,
            max_size=5,
        )
    )
    appended = {key: [] for key in KEYS}
    for number, shape in enumerate(shapes):
        for place, (is_append, key) in enumerate(shape):
            if is_append:
                appended[key].append(10 * number + place)
    spines = {key: draw(st.permutations(values)) for key, values in appended.items()}
    history = []
    for number, shape in enumerate(shapes):
        operations = []
        for place, (is_append, key) in enumerate(shape):
            if is_append:
                operations.append(Append(key, 10 * number + place))
            else:
                seen = draw(st.integers(0, len(spines[key])))
                operations.append(Read(key, tuple(spines[key][:seen])))
        history.append(draw(transactions(f"T{number}", tuple(operations))))
    return history


@st.composite
def transactions(draw, name, operations):
    invoked = draw(st.integers(0, 6))
    outcome = draw(st.sampled_from(["ok", "ok", "ok", "ok", "unknown"]))
    is_snapshot = all(isinstance(op, Read) for op in operations) and draw(st.booleans())
    ts = draw(st.none() | st.integers(0, 3))
    return Transaction(
        name=name,
        operations=operations,
        process=draw(st.sampled_from("pq")),
        invoked=invoked,
        completed=None if outcome == "unknown" else invoked + draw(st.integers(0, 4)),
        outcome=outcome,
        kind="snapshot" if is_snapshot else "write",
        strong=is_snapshot and draw(st.booleans()),
        bookmark=draw(st.booleans()),
        commit_ts=None if is_snapshot or outcome == "unknown" else ts,
        snapshot_ts=ts if is_snapshot else None,
    )


@settings(max_examples=depth(270, long=800))
@given(small_histories())
def test_verdicts_agree_with_trying_every_order(history):
    found = check(history)
    assert bool(found) is not is_serializable(history), found


# ---- correct stores


def steps(actions):
    step = st.tuples(st.integers(0, PROCESSES - 1), st.sampled_from(actions), st.sampled_from(KEYS))
    return st.lists(step, min_size=30, max_size=80)


ACTIONS = [*Action, Action.READ, Action.READ, Action.APPEND, Action.APPEND, Action.COMMIT]


@settings(max_examples=depth(100, long=300))
@given(steps(ACTIONS))
def test_a_serializable_store_has_no_anomaly(steps):
    engine = Engine(serializable=True)
    assert check(engine.run(steps), engine.state()) == []


def judged_snapshot_isolation(steps):
    engine = Engine(serializable=False)
    return check(engine.run(steps), engine.state())


@settings(max_examples=depth(100, long=300))
@given(steps([Action.READ, Action.APPEND, Action.COMMIT, Action.OLD_SNAPSHOT]))
def test_snapshot_isolation_has_write_skew_at_most(steps):
    found = judged_snapshot_isolation(steps)
    assert kinds(found) <= WRITE_SKEW, found


def test_the_stores_differ_in_write_skew():
    """Each transaction reads what the other appends to; one store commits both, the other one of
    them."""
    skew = [(0, Action.READ, "x"), (1, Action.READ, "y"), (0, Action.APPEND, "y")]
    skew += [(1, Action.APPEND, "x"), (0, Action.COMMIT, ""), (1, Action.COMMIT, "")]
    assert kinds(judged_snapshot_isolation(skew)) == {"G2-item"}
    outcomes = [t.outcome for t in Engine(serializable=True).run(skew)]
    assert outcomes == ["ok", "failed"]


# ---- faults planted in serial executions


@st.composite
def serial_executions(draw):
    """Transactions one after the other, and the state that they leave."""
    operation = st.tuples(
        st.sampled_from([Action.READ, Action.APPEND, Action.APPEND]), st.sampled_from(KEYS)
    )
    engine = Engine(serializable=True)
    scripts = draw(st.lists(st.lists(operation, min_size=2, max_size=5), min_size=3, max_size=8))
    history = engine.run(
        [
            (number, action, key)
            for number, script in enumerate(scripts)
            for action, key in [*script, (Action.COMMIT, "")]
        ]
    )
    # Planted faults must show in the reads alone, or by real time.
    return [replace(t, commit_ts=None) for t in history], engine.state()


def reads_of(history):
    """Each read: the transaction's place, the operation's, the read."""
    for number, transaction in enumerate(history):
        for place, op in enumerate(transaction.operations):
            if isinstance(op, Read):
                yield number, place, op


def with_read(history, number, place, values):
    changed = list(history[number].operations)
    changed[place] = Read(changed[place].key, tuple(values))
    return [
        replace(t, operations=tuple(changed)) if i == number else t for i, t in enumerate(history)
    ]


def with_query(history, reads, **said):
    now = history[-1].completed
    query = Transaction("Q", tuple(reads), "q", now + 1, now + 2, kind="snapshot", **said)
    return [*history, query]


def writer_of(history, key, value):
    return next(t for t in history if Append(key, value) in t.operations)


def dropped_value(history, final):
    for number, place, op in reads_of(history):
        for gap in range(len(op.values) - 1):
            values = op.values[:gap] + op.values[gap + 1 :]
            yield with_read(history, number, place, values), final, "incompatible-order"


def swapped_values(history, final):
    for number, place, op in reads_of(history):
        for i, (a, b) in enumerate(pairwise(op.values)):
            values = (*op.values[:i], b, a, *op.values[i + 2 :])
            yield with_read(history, number, place, values), final, "incompatible-order"


def doubled_value(history, final):
    for number, place, op in reads_of(history):
        for value in op.values:
            yield with_read(history, number, place, (*op.values, value)), final, "duplicate"


def made_up_value(history, final):
    for number, place, op in reads_of(history):
        yield with_read(history, number, place, (*op.values, 10_000)), final, "garbage"


def stale_read(history, final):
    """Some cycle through real time, or a worse one of data edges."""
    for number, place, op in reads_of(history):
        if op.values and writer_of(history, op.key, op.values[-1]) is not history[number]:
            yield with_read(history, number, place, op.values[:-1]), final, "G"


def failed_one_is_seen(history, final):
    for number, transaction in enumerate(history):
        if any(transaction.appends()):
            reported = [
                replace(t, outcome="failed") if i == number else t for i, t in enumerate(history)
            ]
            yield reported, final, "G1a"


def lost_append(history, final):
    for transaction in history:
        for lost in transaction.appends():
            reported = history
            for number, place, op in reads_of(history):
                if op.key == lost.key:
                    reported = with_read(
                        reported, number, place, (v for v in op.values if v != lost.value)
                    )
            left = tuple(value for value in final[lost.key] if value != lost.value)
            yield reported, final | {lost.key: left}, "lost-append"


def torn_snapshot(history, final):
    """A query that has all appends of a transaction to one key and none to another."""
    for transaction in history:
        keys = {append.key for append in transaction.appends()}
        for missed in keys:
            first = next(a.value for a in transaction.appends() if a.key == missed)
            reads = [Read(key, final[key]) for key in sorted(keys - {missed})]
            if reads:
                before = final[missed][: final[missed].index(first)]
                yield with_query(history, [*reads, Read(missed, before)]), final, "torn-snapshot"


def intermediate_read(history, final):
    for transaction in history:
        for key in KEYS:
            own = [append.value for append in transaction.appends() if append.key == key]
            if len(own) > 1:
                amid = final[key][: final[key].index(own[0]) + 1]
                yield with_query(history, [Read(key, amid)]), final, "G1b"


def old_strong_snapshot(history, final):
    for key, values in final.items():
        if values:
            reported = with_query(history, [Read(key, values[:-1])], strong=True)
            yield reported, final, "G"


def snapshot_of_the_future(history, final):
    for key, values in final.items():
        if values:
            early = Transaction("Q", (Read(key, values),), "q", -2, -1, kind="snapshot")
            yield [early, *history], final, "G1c-realtime"


FAULTS = (
    *(dropped_value, swapped_values, doubled_value, made_up_value, stale_read, lost_append),
    *(failed_one_is_seen, torn_snapshot, intermediate_read, old_strong_snapshot),
    snapshot_of_the_future,
)


@settings(max_examples=depth(170, long=500))
@given(serial_executions(), st.sampled_from(FAULTS), st.data())
def test_a_planted_fault_is_found(execution, fault, data):
    assert check(*execution) == []
    planted = list(fault(*execution))
    assume(planted)
    history, final, expected = data.draw(st.sampled_from(planted))
    found = kinds(check(history, final))
    assert any(kind.startswith(expected) for kind in found), found
