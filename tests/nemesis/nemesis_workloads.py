"""The requests of clients during faults, and the invariants, which hold whatever fails.

All workloads share one database. A workload lives for one round, a fault and its aftermath: it
begins on rows of earlier rounds or on new rows, and judges the answers that its clients got in the
round.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from hornbeam_server.demo.tpcw import PAPER_ROOTS, SCHEMA, WORKLOAD
from hornbeam_server.demo.tpcw import sessions as tpcw
from hornbeam_server.demo.tpcw.data import RELATIONS, Population, Size
from hornbeam_server.schema.workload import load_workload
from tests.checkers import linearizable, serializable
from tests.checkers.linearizable import NOT_REPORTED
from tests.checkers.list_append import Append, Read, Transaction
from tests.nemesis.nemesis_clients import Answer, Client, Found, Journal, Rows, Statement

CHECKER_MS = 60_000
ROUND = 1_000_000
"""The keys of a round begin at its number times this."""


@dataclass
class Findings:
    """Acknowledged writes that are lost, and other violations, in words. `live_lag_s`: the longest
    time until a subscriber of a live view had an acknowledged write; None: there is none."""

    lost: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    live_lag_s: float | None = None

    def require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.torn.append(otherwise)


class Workload(Protocol):
    """`ddl`, `queries` (for the choice of views), `roots` and `rows` are of the kind; the rest is
    of a round."""

    ddl: ClassVar[str]
    queries: ClassVar[str]
    roots: ClassVar[tuple[str, ...]]

    def __init__(self, number: int) -> None: ...

    @classmethod
    def rows(cls) -> Mapping[str, Rows]:
        """The first rows of the database, parents first."""

    async def begin(self, client: Client) -> None:
        """Prepare the round, before any fault."""

    async def step(self, client: Client) -> None:
        """One transaction or read. Raises Refused, and AssertionError when an answer is wrong."""

    async def judge(self, client: Client) -> Findings:
        """Judge the round, when all outcomes are known and no client writes. Raises AssertionError
        like `step`."""

    def touch(self) -> list[Statement]:
        """Writes to every root that the round has used, without effect on the verdict."""


async def fetched(client: Client, *queries: str | Statement, **options: bool) -> list[Rows]:
    """The rows of queries at one snapshot. Raises AssertionError when there is no answer."""
    found = await client.read(*queries, **options)
    assert found is not None, f"no answer to {queries}"
    return found.rows


# ---------------------------------------------------------------- bank


class Bank:
    """Money moves between accounts under different roots; the sum never changes.

    Each transfer changes two accounts and a page below each, and inserts a row about itself, under
    a root of its own.
    """

    ddl = """
    CREATE TABLE account (a_id INTEGER PRIMARY KEY, a_balance INTEGER NOT NULL);
    CREATE TABLE page (
      p_a_id INTEGER REFERENCES account (a_id), p_no INTEGER,
      p_amount INTEGER NOT NULL, p_entries INTEGER NOT NULL, PRIMARY KEY (p_a_id, p_no));
    CREATE TABLE transfer (
      t_id INTEGER PRIMARY KEY, t_from INTEGER NOT NULL, t_to INTEGER NOT NULL,
      t_amount INTEGER NOT NULL);
    """
    queries = """
    -- name: bank_pages
    SELECT a_id, a_balance, p_no, p_amount, p_entries FROM account, page WHERE a_id = p_a_id;
    -- name: bank_rich
    SELECT a_id, a_balance, p_no FROM account, page WHERE a_id = p_a_id AND a_balance >= ?;
    """
    roots = ("account",)
    ACCOUNTS, PAGES, OPENING = 8, 3, 1_000
    _MOVE = "UPDATE account SET a_balance = a_balance + ? WHERE a_id = ?"
    _ENTER = (
        "UPDATE page SET p_amount = p_amount + ?, p_entries = p_entries + 1"
        " WHERE p_a_id = ? AND p_no = ?"
    )
    _NOTE = "INSERT INTO transfer VALUES (?, ?, ?, ?)"
    _BALANCES = "SELECT a_id, a_balance FROM account"
    _JOINED = (
        "SELECT a_id, a_balance, p_no, p_amount, p_entries FROM account, page WHERE a_id = p_a_id"
    )
    _RICH = "SELECT a_id, a_balance, p_no FROM account, page WHERE a_id = p_a_id AND a_balance >= ?"

    def __init__(self, number: int) -> None:
        self._first = number * ROUND
        self._numbers = itertools.count(self._first)
        self._asked: dict[str, tuple[int, int, int, int]] = {}
        self._opening: Counter[int] = Counter()
        self._entries = 0

    @classmethod
    def rows(cls) -> Mapping[str, Rows]:
        accounts = range(cls.ACCOUNTS)
        return {
            "account": [(n, cls.OPENING) for n in accounts],
            "page": [(n, no, 0, 0) for n in accounts for no in range(cls.PAGES)],
        }

    async def begin(self, client: Client) -> None:
        balances, joined = await fetched(client, self._BALANCES, self._JOINED)
        self._opening = Counter(dict(balances))
        self._entries = sum(row[4] for row in joined)

    async def step(self, client: Client) -> None:
        if client.random.random() < 0.3:
            await self._read(client)
        else:
            await self._transfer(client)

    async def _transfer(self, client: Client) -> None:
        a, b = client.random.sample(range(self.ACCOUNTS), 2)
        amount, no = client.random.randint(1, 50), client.random.randrange(self.PAGES)
        transfer = (next(self._numbers), a, b, amount)
        self._asked[client.next_key()] = transfer
        await client.transact(
            (self._MOVE, (-amount, a)),
            (self._ENTER, (-amount, a, no)),
            (self._MOVE, (amount, b)),
            (self._ENTER, (amount, b, no)),
            (self._NOTE, transfer),
        )

    async def _read(self, client: Client) -> None:
        least = client.random.randint(500, 1_500)
        found = await client.read(self._BALANCES, self._JOINED, (self._RICH, (least,)))
        if found is not None:
            balances, joined, rich = found.rows
            self._require_balanced(balances, joined)
            expected = [row[:3] for row in joined if row[1] >= least]
            assert sorted(rich) == sorted(expected), "the view's index shows other accounts"

    def _require_balanced(self, balances: Rows, joined: Rows) -> None:
        total = sum(balance for _, balance in balances)
        assert total == self.OPENING * self.ACCOUNTS, f"the balances sum up to {total}: {balances}"
        sums, shown = Counter({a: self.OPENING for a, _ in balances}), dict(balances)
        for a, balance, _, amount, _ in joined:
            assert balance == shown[a], "the view shows another balance"
            sums[a] += amount
        assert dict(sums) == shown, "the pages do not add up to the balance"

    async def judge(self, client: Client) -> Findings:
        mine = "SELECT t_id, t_from, t_to, t_amount FROM transfer WHERE t_id >= ? AND t_id < ?"
        both = (self._first, self._first + ROUND)
        balances, joined, transfers = await fetched(
            client, self._BALANCES, self._JOINED, (mine, both)
        )
        self._require_balanced(balances, joined)
        there, reported = set(transfers), client.journal.acknowledged
        expected = Counter(self._opening)
        for _, a, b, amount in transfers:
            expected[a] -= amount
            expected[b] += amount
        acknowledged = {row for key, row in self._asked.items() if key in reported}
        refused = {row for key, row in self._asked.items() if key in client.journal.refused}
        entries = sum(row[4] for row in joined) - self._entries
        findings = Findings([f"transfer {row}" for row in sorted(acknowledged - there)])
        findings.require(there <= set(self._asked.values()), "a transfer that no client asked for")
        findings.require(not there & refused, "a transfer that was refused is there")
        findings.require(expected == Counter(dict(balances)), "balances are not the transfers'")
        findings.require(entries == 2 * len(there), "a transfer was done twice, or in part")
        return findings

    def touch(self) -> list[Statement]:
        return [(self._MOVE, (0, account)) for account in range(self.ACCOUNTS)]


# ---------------------------------------------------------------- lists and counters


@dataclass(frozen=True)
class _Appended:
    """A write to lists as its client began it."""

    process: str
    invoked: float
    looked: tuple[Read, ...]
    appends: tuple[Append, ...]


class Appends:
    """Append-only lists, and counters: histories for the checkers.

    A list is a TEXT; the view shows it beside each of its tags. Each list and each counter is a
    root of its own, and new in each round.
    """

    ddl = """
    CREATE TABLE list (l_id INTEGER PRIMARY KEY, l_values TEXT NOT NULL);
    CREATE TABLE tag (
      t_l_id INTEGER REFERENCES list (l_id), t_no INTEGER, PRIMARY KEY (t_l_id, t_no));
    CREATE TABLE counter (c_id INTEGER PRIMARY KEY, c_value INTEGER NOT NULL);
    """
    queries = """
    -- name: append_tags
    SELECT t_no, l_values FROM list, tag WHERE l_id = t_l_id AND l_id = ?;
    """
    roots = ("list",)
    LISTS, TAGS, COUNTERS = 12, 2, 4
    _LIST = "SELECT l_values FROM list WHERE l_id = ?"
    _BY_TAGS = "SELECT t_no, l_values FROM list, tag WHERE l_id = t_l_id AND l_id = ?"
    _APPEND = "UPDATE list SET l_values = l_values || ? WHERE l_id = ? RETURNING l_values"
    _ADD = "UPDATE counter SET c_value = c_value + ? WHERE c_id = ? RETURNING c_value"
    _SWAP = "UPDATE counter SET c_value = ? WHERE c_id = ? AND c_value = ? RETURNING 1"
    _COUNT = "SELECT c_value FROM counter WHERE c_id = ?"

    def __init__(self, number: int) -> None:
        self._lists = [number * ROUND + n for n in range(self.LISTS)]
        self._counters = [number * ROUND + n for n in range(self.COUNTERS)]
        self._values = itertools.count(1)
        self._writes: dict[str, _Appended] = {}
        self._counted: dict[str, linearizable.Operation] = {}
        self.history: list[Transaction] = []
        self.counts: list[linearizable.Operation] = []
        self._last = dict.fromkeys(self._counters, 0)

    @classmethod
    def rows(cls) -> Mapping[str, Rows]:
        return {}

    async def begin(self, client: Client) -> None:
        lists, counters = self._lists, self._counters
        tags = [(number, no) for number in lists for no in range(self.TAGS)]
        answer = await client.transact(
            *(("INSERT INTO list VALUES (?, '')", (number,)) for number in lists),
            *(("INSERT INTO tag VALUES (?, ?)", tag) for tag in tags),
            *(("INSERT INTO counter VALUES (?, 0)", (number,)) for number in counters),
        )
        assert answer is not None, "no answer"

    async def step(self, client: Client) -> None:
        work = [self._append, self._look_and_append, self._read, self._add, self._swap, self._count]
        (chosen,) = client.random.choices(work, [20, 20, 20, 15, 10, 15])
        await chosen(client)

    async def _append(self, client: Client) -> None:
        await self._write(client, time.monotonic(), (), [])

    async def _look_and_append(self, client: Client) -> None:
        """Optimistic: the lists must not have changed by the commit."""
        numbers = client.random.sample(self._lists, 2)
        found = await client.read(*((self._LIST, (n,)) for n in numbers), trace=True)
        if found is not None:
            looked = tuple(
                Read(str(n), _parsed(rows)) for n, rows in zip(numbers, found.rows, strict=True)
            )
            await self._write(client, found.invoked, looked, found.reads)

    async def _write(
        self, client: Client, invoked: float, looked: tuple[Read, ...], reads: list[list[Any]]
    ) -> None:
        numbers = client.random.choices(self._lists, k=client.random.randint(1, 3))
        appends = tuple(Append(str(number), next(self._values)) for number in numbers)
        self._writes[client.next_key()] = _Appended(client.name, invoked, looked, appends)
        statements = [(self._APPEND, (f"{a.value} ", int(a.key))) for a in appends]
        await client.transact(*statements, reads=reads)

    async def _read(self, client: Client) -> None:
        numbers = client.random.sample(self._lists, 4)
        by_tags = [client.random.random() < 0.5 for _ in numbers]
        queries = [
            (self._BY_TAGS if tagged else self._LIST, (number,))
            for number, tagged in zip(numbers, by_tags, strict=True)
        ]
        found = await client.read(*queries)
        if found is None:
            return
        reads = []
        for number, tagged, rows in zip(numbers, by_tags, found.rows, strict=True):
            assert len(rows) == (self.TAGS if tagged else 1), f"list {number} has {len(rows)} rows"
            reads.append(Read(str(number), _parsed(rows)))
        self._note_read(client, found, tuple(reads))

    def _note_read(self, client: Client, found: Found, reads: tuple[Read, ...]) -> None:
        self.history.append(
            Transaction(
                f"read {len(self.history)}",
                reads,
                client.name,
                found.invoked,
                found.completed,
                kind="snapshot",
                strong=True,
                bookmark=True,
                snapshot_ts=found.snapshot,
            )
        )

    # ------------------------------------------------------------ counters

    async def _add(self, client: Client) -> None:
        counter, more = client.random.choice(self._counters), client.random.randint(1, 9)
        key = self._begin(client, counter, "add", argument=more)
        answer = await client.transact((self._ADD, (more, counter)))
        self._seen(key, counter, answer)

    async def _swap(self, client: Client) -> None:
        counter, new = client.random.choice(self._counters), client.random.randint(0, 99)
        old = self._last[counter]
        key = self._begin(client, counter, "cas", argument=new, expected=old)
        answer = await client.transact((self._SWAP, (new, counter, old)))
        self._seen(key, counter, answer)

    def _begin(self, client: Client, counter: int, kind: Any, **known: int) -> str:
        key, process = client.next_key(), _process(client)
        call = _microseconds(time.monotonic())
        self._counted[key] = linearizable.Operation(
            process, str(counter), kind, call, None, **known
        )
        return key

    def _seen(self, key: str, counter: int, answer: Answer | None) -> None:
        if answer is not None and answer.completed is not None:
            returned = _microseconds(answer.completed)
            self._counted[key] = replace(self._counted[key], returned=returned)
            if self._counted[key].kind == "add":
                ((self._last[counter],),) = answer.rows[0]

    async def _count(self, client: Client) -> None:
        counter, call = client.random.choice(self._counters), _microseconds(time.monotonic())
        found = await client.read((self._COUNT, (counter,)))
        if found is not None:
            ((self._last[counter],),) = found.rows[0]
            self.counts.append(
                linearizable.Operation(
                    _process(client),
                    str(counter),
                    "read",
                    call,
                    _microseconds(found.completed),
                    result=self._last[counter],
                )
            )

    # ------------------------------------------------------------ invariants

    async def judge(self, client: Client) -> Findings:
        over, journal = time.monotonic(), client.journal
        plain = await fetched(client, *((self._LIST, (n,)) for n in self._lists))
        tagged = await fetched(client, *((self._BY_TAGS, (n,)) for n in self._lists))
        final = {str(n): _parsed(rows) for n, rows in zip(self._lists, plain, strict=True)}
        assert final == {str(n): _parsed(rows) for n, rows in zip(self._lists, tagged, strict=True)}
        history = [
            *self.history,
            *(self._reported(k, w, journal, over) for k, w in self._writes.items()),
        ]
        findings = Findings()
        for anomaly in serializable.check(history, final):
            words = findings.lost if anomaly.kind == "lost-append" else findings.torn
            words.append(str(anomaly))
        findings.torn += self._judge_counters(list(self._reported_counts(journal, over)))
        return findings

    def _judge_counters(self, reported: list[linearizable.Operation]) -> list[str]:
        """The errors of the counters, with all operations as evidence."""
        found = []
        for counter in map(str, self._counters):
            operations = [op for op in (*self.counts, *reported) if op.key == counter]
            try:
                verdict = linearizable.check(operations, {counter: 0}, timeout_ms=CHECKER_MS)
                wrong = "" if verdict.linearizable else verdict.description
            except linearizable.CheckerError as error:
                wrong = str(error)
            if wrong:
                found.append(f"counter {counter}: {wrong}; {operations}")
        return found

    def _reported(self, key: str, write: _Appended, journal: Journal, over: float) -> Transaction:
        answer = journal.acknowledged.get(key)
        reported: list[Append | Read] = list(write.appends)
        if answer is not None:
            reported = []
            for append, rows in zip(write.appends, answer.rows, strict=True):
                reported += [append, Read(append.key, _parsed(rows))]
        completed = answer.completed if answer is not None else over
        return Transaction(
            key,
            (*write.looked, *reported),
            # The client goes on without the result, so this write precedes none of its later ones.
            key if completed is None else write.process,
            write.invoked,
            over if completed is None else completed,
            outcome="failed" if answer is None else "ok",
            bookmark=completed is not None,
            commit_ts=None if answer is None else answer.commit_ts,
        )

    def _reported_counts(self, journal: Journal, over: float) -> Iterable[linearizable.Operation]:
        for number, (key, begun) in enumerate(self._counted.items(), ROUND):
            answer = journal.acknowledged.get(key)
            if answer is None:
                continue
            rows = answer.rows[0]
            result = bool(rows) if begun.kind == "cas" else rows[0][0] if rows else NOT_REPORTED
            known = replace(begun, result=result)
            if begun.returned is None:  # a process of its own: its client went on
                known = replace(known, process=number, returned=_microseconds(over))
            yield known

    def touch(self) -> list[Statement]:
        lists = [
            ("UPDATE list SET l_values = l_values || '' WHERE l_id = ?", (n,)) for n in self._lists
        ]
        return [*lists, *((self._ADD, (0, counter)) for counter in self._counters)]


def _parsed(rows: Rows) -> tuple[int, ...]:
    texts = {row[-1] for row in rows}
    assert len(texts) == 1, f"the rows of one list show {texts}"
    return tuple(int(word) for word in texts.pop().split())


def _process(client: Client) -> int:
    return int(client.name.rpartition("-")[2])


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


# ---------------------------------------------------------------- linked list


class LinkedList:
    """A ring of nodes, each under a root of its own, each pointer a foreign key to another root.

    Two pointers never lead to one node, and each leads to an existing node. So a transaction that
    relies on a past list is refused, and the constraints keep the order.
    """

    ddl = """
    CREATE TABLE node (
      n_id INTEGER PRIMARY KEY, n_label TEXT NOT NULL,
      n_next INTEGER NOT NULL UNIQUE REFERENCES node (n_id));
    CREATE TABLE cursor (k_id INTEGER PRIMARY KEY, k_n_id INTEGER REFERENCES node (n_id));
    """
    queries = """
    -- name: list_cursors
    SELECT k_id, n_id, n_label FROM node, cursor WHERE n_id = k_n_id;
    """
    roots = ("node",)
    IDS, LENGTH, CURSORS = 16, 8, 2
    _LINKS = "SELECT n_id, n_next FROM node"
    _TURN = "UPDATE node SET n_next = ? WHERE n_id = ?"
    _BACK = "SELECT n_id FROM node WHERE n_next = ?"
    _CURSORS = "SELECT k_id, k_n_id FROM cursor"
    _AT_CURSORS = "SELECT k_id, n_id, n_label FROM node, cursor WHERE n_id = k_n_id"

    def __init__(self, number: int) -> None:
        del number  # the list is kept from round to round
        self._length = 0

    @classmethod
    def rows(cls) -> Mapping[str, Rows]:
        nodes: Rows = [(n, "first", (n + 1) % cls.LENGTH) for n in range(cls.LENGTH)]
        return {"node": nodes, "cursor": [(k, 0) for k in range(cls.CURSORS)]}

    async def begin(self, client: Client) -> None:
        (links,) = await fetched(client, self._LINKS)
        self._length = len(links)

    async def step(self, client: Client) -> None:
        """Read the list, then change it."""
        found = await client.read(self._LINKS, self._CURSORS, self._AT_CURSORS)
        if found is None:
            return
        self._require_ring(*found.rows)
        after = dict(found.rows[0])
        (work,) = client.random.choices(
            [self._insert, self._remove, self._point, self._look_back], [30, 30, 15, 25]
        )
        await work(client, after)

    async def _insert(self, client: Client, after: dict[int, int]) -> None:
        absent = sorted(set(range(self.IDS)) - after.keys())
        if not absent:
            return
        node, before = client.random.choice(absent), client.random.choice(sorted(after))
        await client.transact(
            (self._TURN, (node, before)),
            (
                "INSERT INTO node VALUES (?, ?, ?) RETURNING 1",
                (node, client.name, after[before]),
            ),
        )

    async def _remove(self, client: Client, after: dict[int, int]) -> None:
        """Remove neither the node of the cursors nor one of the last two nodes."""
        before = client.random.choice(sorted(after))
        node = after[before]
        if node != 0 and len(after) > 2:
            await client.transact(
                (self._TURN, (after[node], before)),
                ("DELETE FROM node WHERE n_id = ? RETURNING -1", (node,)),
            )

    async def _point(self, client: Client, after: dict[int, int]) -> None:
        label = f"{client.name} {client.next_key()}"
        node = client.random.choice(sorted(after))
        await client.transact(("UPDATE node SET n_label = ? WHERE n_id = ?", (label, node)))

    async def _look_back(self, client: Client, after: dict[int, int]) -> None:
        nodes = client.random.sample(sorted(after), min(3, len(after)))
        found = await client.read(self._LINKS, *((self._BACK, (node,)) for node in nodes))
        if found is not None:
            links, *back = found.rows
            for node, rows in zip(nodes, back, strict=True):
                expected = [(a,) for a, b in links if b == node]
                assert rows == expected, f"{rows} lead to {node} by the index, not {expected}"

    def _require_ring(self, links: Rows, cursors: Rows, at_cursors: Rows) -> None:
        after = dict(links)
        way, node = [0], after[0]
        while node != 0:
            assert node in after, f"{way} leads to {node}, which is not there"
            assert node not in way, f"{way} leads to {node} again"
            way.append(node)
            node = after[node]
        assert sorted(way) == sorted(after), f"{way} is not all of {sorted(after)}"
        assert sorted((k, n) for k, n, _ in at_cursors) == sorted(cursors), (
            "the view is not the join"
        )

    async def judge(self, client: Client) -> Findings:
        links, cursors, at_cursors = await fetched(
            client, self._LINKS, self._CURSORS, self._AT_CURSORS
        )
        self._require_ring(links, cursors, at_cursors)
        plain = await fetched(client, self._LINKS, self._CURSORS, self._AT_CURSORS, use_views=False)
        self._require_ring(*plain)
        reported = sum(
            more
            for answer in client.journal.acknowledged.values()
            for rows in answer.rows
            for (more,) in rows
        )
        if len(links) != self._length + reported:
            return Findings(
                [f"{len(links)} nodes are there, {self._length} + {reported} were reported"]
            )
        return Findings()

    def touch(self) -> list[Statement]:
        return [
            ("UPDATE node SET n_label = 'touched' WHERE n_id = ?", (n,)) for n in range(self.IDS)
        ]


# ---------------------------------------------------------------- TPC-W


class Shop:
    """TPC-W's emulated browsers. Every row whose creation was acknowledged must exist."""

    ddl = SCHEMA.read_text()
    queries = WORKLOAD.read_text()
    roots = PAPER_ROOTS
    SIZE = Size(40, 40)
    _WEIGHTS: ClassVar = [
        weight * (8 if name == "buy_confirm" else 1)
        for name, weight in zip(tpcw.INTERACTIONS, tpcw.MIXES["shopping"], strict=True)
    ]
    """The shopping mix, with more orders: writes are at stake."""
    _KEYS: ClassVar = {
        "create_cart": ("shopping_cart", "sc_id"),
        "enter_order": ("orders", "o_id"),
        "create_customer": ("customer", "c_id"),
        "enter_address": ("address", "addr_id"),
    }
    _statements: ClassVar = {
        s.name: s.sql for s in load_workload(WORKLOAD.read_text(), str(WORKLOAD))
    }

    _counter = tpcw.Counter(SIZE)

    def __init__(self, number: int) -> None:
        self._number = number
        self._browsers: dict[str, tpcw.EmulatedBrowser] = {}
        self._created: dict[str, list[tuple[str, Any]]] = {}

    @classmethod
    def rows(cls) -> Mapping[str, Rows]:
        population = Population(cls.SIZE)
        return {
            relation: [tuple(map(tpcw.wire, row)) for row in population.rows(relation)]
            for relation in RELATIONS
        }

    async def begin(self, client: Client) -> None: ...

    async def step(self, client: Client) -> None:
        browser = self._browsers.get(client.name)
        if browser is None:
            store: Any = _Store(client, self._statements, self._created)
            seed = f"{self._number}/{client.name}"
            browser = tpcw.EmulatedBrowser(store, self.SIZE, type(self)._counter, seed)
            self._browsers[client.name] = browser
        try:
            await browser.interact(self._WEIGHTS)
        except _NoAnswer:
            client.journal.counts["interactions cut short"] += 1

    async def judge(self, client: Client) -> Findings:
        reported: dict[str, set[Any]] = {name: set() for name in self._KEYS}
        for key, created in self._created.items():
            if key in client.journal.acknowledged:
                for name, value in created:
                    reported[name].add(value)
        findings = Findings()
        for name, (relation, column) in self._KEYS.items():
            ((*rows,),) = await fetched(client, f"SELECT {column} FROM {relation}")
            missing = reported[name] - {value for (value,) in rows}
            findings.lost += [f"{relation} {value}" for value in sorted(missing)]
        lines, orders = await fetched(
            client,
            "SELECT DISTINCT ol_o_id FROM order_line",
            "SELECT cx_o_id FROM cc_xacts, orders WHERE cx_o_id = o_id",
        )
        bought = {value for (value,) in orders}
        findings.require(reported["enter_order"] <= bought, "an order without its payment")
        findings.require({o for (o,) in lines} <= bought, "lines of an order that is not there")
        return findings

    def touch(self) -> list[Statement]:
        customers = range(1, self.SIZE.customers + 1)
        return [("UPDATE customer SET c_data = c_data WHERE c_id = ?", (c,)) for c in customers]


class _NoAnswer(Exception):
    """An interaction cannot go on without an answer."""


class _Store:
    """A `Store` of the emulated browsers over a client of the nemesis."""

    def __init__(
        self,
        client: Client,
        statements: Mapping[str, str],
        created: dict[str, list[tuple[str, Any]]],
    ) -> None:
        self._client = client
        self._statements = statements
        self._created = created

    async def read(self, name: str, *parameters: Any, use_views: bool = True) -> list[list[Any]]:
        values = [tpcw.wire(value) for value in parameters]
        found = await self._client.read((self._statements[name], values), use_views=use_views)
        if found is None:
            raise _NoAnswer
        return [list(row) for row in found.rows[0]]

    async def write(self, *statements: tuple[str, Sequence[Any]]) -> None:
        key = self._client.next_key()
        self._created[key] = [(n, values[0]) for n, values in statements if n in Shop._KEYS]
        sent = [(self._statements[n], [tpcw.wire(v) for v in values]) for n, values in statements]
        if await self._client.transact(*sent) is None:
            raise _NoAnswer


def seeded(seed: object) -> random.Random:
    return random.Random(str(seed))
