"""Append-only lists, and counters: histories for the checkers, which know nothing of the database.

Clients append to one to three lists, some after reading other lists (optimistic), read several at
one snapshot, by the view and without, and retire a list that has become long. A list is a TEXT, or
rows below the list's row; each list is a root of its own. Beside them are counters, each a root:
clients read them, add to them, compare and set, delete and insert them.

Everything is recorded as clients observe it, in virtual time. Transactions whose clients gave up
are completed once their outcome is known. At the end the lists must be serializable in all orders
that are promised (serializable.py), and each counter linearizable (linearizable.py).
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import ConstraintViolation, UniqueViolation
from hornbeam_server.schema.model import Schema
from hornbeam_server.txlayer.statements.requests import (
    Statement,
    StatementResult,
    TransactionResult,
)
from tests.checkers import linearizable, serializable
from tests.checkers.linearizable import NOT_REPORTED
from tests.checkers.list_append import Append, Operation, Read, Transaction
from tests.sim.interactive import Interactive, next_key
from tests.sim.simulation import CLIENTS, Client, Journal
from tests.txlayer.database_world import catalog_of

LONG = 12
"""A list of this length is retired, so that neither rows nor histories grow without limit."""
Query = tuple[str, tuple[int, ...]]
Values = tuple[int, ...]
_COUNTER = "CREATE TABLE counter (c_id INTEGER PRIMARY KEY, c_value INTEGER NOT NULL);"


class _Text:
    """A list is a TEXT; the view shows it beside each of its tags."""

    ddl = """
        CREATE TABLE list (l_id INTEGER PRIMARY KEY, l_values TEXT NOT NULL);
        CREATE TABLE tag (
          t_l_id INTEGER REFERENCES list (l_id) ON DELETE CASCADE, t_no INTEGER,
          PRIMARY KEY (t_l_id, t_no));
        """

    def new(self, number: int) -> list[Statement]:
        return [
            Statement("INSERT INTO list VALUES (?, '')", (number,)),
            Statement("INSERT INTO tag VALUES (?, 0), (?, 1)", (number, number)),
        ]

    def queries(self, number: int, by_view: bool) -> list[Query]:
        if by_view:
            return [("SELECT l_values FROM list, tag WHERE l_id = t_l_id AND l_id = ?", (number,))]
        return [("SELECT l_values FROM list WHERE l_id = ?", (number,))]

    def values(self, found: Sequence[list[tuple]]) -> Values | None:
        texts = {text for (text,) in found[0]}
        assert len(texts) <= 1, f"the tags of one list show {texts}"
        return self._parsed(*texts) if texts else None

    def _parsed(self, text: str) -> Values:
        return tuple(int(word) for word in text.split())

    async def append(self, look: Interactive, appends: Sequence[Append]) -> list[Statement]:
        sql = "UPDATE list SET l_values = l_values || ? WHERE l_id = ? RETURNING l_values"
        return [Statement(sql, (f"{append.value} ", int(append.key))) for append in appends]

    def reported(
        self, appends: Sequence[Append], results: Sequence[StatementResult]
    ) -> Iterator[Operation]:
        for append, result in zip(appends, results, strict=True):
            for (text,) in result.rows:
                yield append
                yield Read(append.key, self._parsed(text))

    def drop(self, number: int) -> list[Statement]:
        return [Statement("DELETE FROM list WHERE l_id = ? RETURNING l_values", (number,))]

    def dropped(self, results: Sequence[StatementResult]) -> Values | None:
        return self.values([list(results[0].rows)])


class _Rows:
    """A list is a row with its length, and a row below it for each of its values."""

    ddl = """
        CREATE TABLE list (l_id INTEGER PRIMARY KEY, l_length INTEGER NOT NULL);
        CREATE TABLE entry (
          e_l_id INTEGER REFERENCES list (l_id), e_no INTEGER, e_value INTEGER NOT NULL,
          PRIMARY KEY (e_l_id, e_no));
        """

    def new(self, number: int) -> list[Statement]:
        return [Statement("INSERT INTO list VALUES (?, 0)", (number,))]

    def queries(self, number: int, by_view: bool) -> list[Query]:
        """Later entries are not among the rows read, so the length is what is validated."""
        entries = "SELECT e_no, e_value FROM entry WHERE e_l_id = ?"
        if by_view:
            entries = "SELECT e_no, e_value FROM list, entry WHERE l_id = e_l_id AND l_id = ?"
        return [("SELECT l_length FROM list WHERE l_id = ?", (number,)), (entries, (number,))]

    def values(self, found: Sequence[list[tuple]]) -> Values | None:
        lengths, entries = found
        numbers = [number for number, _ in sorted(entries)]
        assert numbers == list(range(1, sum(n for (n,) in lengths) + 1)), found
        return tuple(value for _, value in sorted(entries)) if lengths else None

    async def append(self, look: Interactive, appends: Sequence[Append]) -> list[Statement] | None:
        sql = "UPDATE list SET l_length = l_length + 1 WHERE l_id = ? RETURNING l_length"
        lengthen = [Statement(sql, (int(append.key),)) for append in appends]
        tried = await look.attempt(*lengthen)
        if tried is None:
            return None
        entries = [
            Statement("INSERT INTO entry VALUES (?, ?, ?)", (int(append.key), no, append.value))
            for append, result in zip(appends, tried, strict=True)
            for (no,) in result.rows
        ]
        return lengthen + entries

    def reported(
        self, appends: Sequence[Append], results: Sequence[StatementResult]
    ) -> Iterator[Operation]:
        return (a for a, result in zip(appends, results, strict=False) if result.rows)

    def drop(self, number: int) -> list[Statement]:
        """The foreign key refuses this if there is an entry that the first statement did not
        find."""
        return [
            Statement("DELETE FROM entry WHERE e_l_id = ? RETURNING e_no, e_value", (number,)),
            Statement("DELETE FROM list WHERE l_id = ? RETURNING l_length", (number,)),
        ]

    def dropped(self, results: Sequence[StatementResult]) -> Values | None:
        entries, lengths = results[0].rows, results[1].rows
        return self.values([list(lengths), list(entries)])


@dataclass(frozen=True)
class _Write:
    """A write as its client began it. Its answer has the result."""

    process: str
    invoked: float
    completed: float | None
    looked: tuple[Read, ...] = ()
    appends: tuple[Append, ...] = ()
    dropped: int | None = None


class ListAppend:
    oracle = True

    judge_counts = True
    """False: the caller judges `counts`, starting from `initial`, for many runs at once."""

    def __init__(self, rng: random.Random) -> None:
        self.form = rng.choice([_Text, _Rows])()
        self.counters = rng.choice([1, 2, 4])
        self.history: list[Transaction] = []
        self.counts: list[linearizable.Operation] = []
        """The history of the counters, complete after `check`, for a caller that judges many runs
        at once."""
        self.initial = {str(n): 0 for n in range(self.counters)}
        self._lists = list(range(rng.choice([2, 3, 6])))
        self._numbers = itertools.count(len(self._lists))
        self._values = itertools.count(1)
        self._due: set[int] = set()
        self._retiring: set[int] = set()
        self._writes: dict[str, _Write] = {}
        self._last = dict.fromkeys(range(self.counters), 0)
        self._counted: dict[str, linearizable.Operation] = {}

    def catalog(self) -> Catalog:
        return catalog_of(self._schema())

    def _schema(self) -> Schema:
        return load_ddl(self.form.ddl + _COUNTER)

    async def set_up(self, database: Database) -> None:
        for number in self._lists:
            for statement in self.form.new(number):
                await database.execute(statement.sql, statement.parameters)
        counters = [(n, 0) for n in range(self.counters)]
        await database.load("counter", ["c_id", "c_value"], counters)

    # ------------------------------------------------------------ lists

    async def step(self, client: Client) -> None:
        if self._due:
            return await self._retire(client, self._due.pop())
        work = [self._append, self._look_and_append, self._read, self._count, self._read_counter]
        (chosen,) = client.random.choices(work, [20, 20, 20, 25, 15])
        return await chosen(client)

    async def _append(self, client: Client) -> None:
        await self._write(client, Interactive(client), _now(), ())

    async def _look_and_append(self, client: Client) -> None:
        invoked, look, reads = _now(), Interactive(client), []
        for number in self._some(client, 2):
            found = []
            for sql, parameters in self.form.queries(number, client.random.random() < 0.5):
                rows = await look.look(sql, parameters)
                if rows is None:
                    return
                found.append(rows)
            reads += self._seen(number, self.form.values(found))
        await self._write(client, look, invoked, tuple(reads))

    async def _write(
        self, client: Client, look: Interactive, invoked: float, looked: tuple[Read, ...]
    ) -> None:
        numbers = [client.random.choice(self._lists) for _ in range(client.random.randint(1, 3))]
        appends = tuple(Append(str(number), next(self._values)) for number in numbers)
        statements = await self.form.append(look, appends)
        if statements is None:
            return
        key = next_key(client)
        try:
            reported = await look.commit(*statements)
        except UniqueViolation:  # another client's entry is there
            client.journal.counts["UniqueViolation"] += 1
            reported = None
        self._writes[key] = _Write(client.name, invoked, _completed(reported), looked, appends)

    async def _read(self, client: Client) -> None:
        """Read some lists. A stranger has no bookmark: only real time binds its reads, and only
        strong ones."""
        invoked, numbers, stranger = _now(), self._some(client, 4), client.random.random() < 0.4
        strong = client.is_strong
        asked = [self.form.queries(n, client.random.random() < 0.5) for n in numbers]
        queries = [query for part in asked for query in part]
        found, at = await self._found(client, queries, stranger, strong)
        if found is None:
            return
        completed, answers, reads = _now(), iter(found), []
        for number, part in zip(numbers, asked, strict=True):
            reads += self._seen(number, self.form.values([next(answers) for _ in part]))
        name = f"read {len(self.history)}"
        self.history.append(
            Transaction(
                name,
                tuple(reads),
                name if stranger else client.name,
                invoked,
                completed,
                kind="snapshot",
                strong=strong,
                bookmark=not stranger,
                snapshot_ts=at,
            )
        )

    async def _found(
        self, client: Client, queries: Sequence[Query], stranger: bool, strong: bool = True
    ) -> tuple[list[list[tuple]] | None, int | None]:
        """Rows of all queries at one snapshot, and its timestamp; None when there was no answer."""
        if not stranger:
            return await client.read(*queries, strong=strong), client.bookmark
        look, found = Interactive(client, stranger=True), []
        for sql, parameters in queries:
            rows = await look.look(sql, parameters, strong=strong and look.snapshot is None)
            if rows is None:
                return None, None
            found.append(rows)
        client.journal.counts["reads"] += 1
        return found, look.snapshot

    def _some(self, client: Client, most: int) -> list[int]:
        count = client.random.randint(1, min(most, len(self._lists)))
        return client.random.sample(self._lists, count)

    def _seen(self, number: int, values: Values | None) -> list[Read]:
        if (values is None or len(values) >= LONG) and number not in self._retiring:
            self._due.add(number)
        return [] if values is None else [Read(str(number), values)]

    async def _retire(self, client: Client, number: int) -> None:
        """Delete a list, which returns its values, and create another, in one transaction."""
        if number not in self._lists:
            return
        self._retiring.add(number)
        fresh, invoked, key = next(self._numbers), _now(), next_key(client)
        try:
            reported = await client.transact(*self.form.drop(number), *self.form.new(fresh))
        except ConstraintViolation:
            client.journal.counts["a list was not to be retired"] += 1
            reported = None
        self._writes[key] = _Write(client.name, invoked, _completed(reported), dropped=number)
        if reported is not None:
            self._lists[self._lists.index(number)] = fresh
        self._retiring.discard(number)

    # ------------------------------------------------------------ counters

    async def _read_counter(self, client: Client) -> None:
        counter, call = client.random.randrange(self.counters), _now_us()
        query = ("SELECT c_value FROM counter WHERE c_id = ?", (counter,))
        found, _ = await self._found(client, [query], client.random.random() < 0.6)
        if found is not None:
            value = found[0][0][0] if found[0] else None
            self._last[counter] = value
            known = {"returned": _now_us(), "result": value}
            self.counts.append(_operation(client, counter, "read", call, **known))

    async def _count(self, client: Client) -> None:
        counter, amount = client.random.randrange(self.counters), client.random.randint(1, 99)
        statement, kind, expected, argument = self._counting(client.random, counter, amount)
        begun = _operation(client, counter, kind, _now_us(), expected=expected, argument=argument)
        key = next_key(client)
        self._counted[key] = begun
        try:
            reported = await client.transact(statement)
        except UniqueViolation:
            # `begun` stays: a refusal is no outcome, and an earlier copy may still commit.
            self.counts.append(replace(begun, returned=_now_us(), result=False))
        else:
            if _completed(reported) is not None:
                self._counted[key] = replace(begun, returned=_now_us())

    def _counting(
        self, rng: random.Random, counter: int, amount: int
    ) -> tuple[Statement, str, int | None, int | None]:
        """A statement; its kind for the checker, with the expected value and the argument."""
        last = self._last[counter] if rng.random() < 0.8 else amount
        if last is None:
            insert = "INSERT INTO counter VALUES (?, ?) RETURNING c_value"
            return Statement(insert, (counter, amount)), "cas", None, amount
        kind = rng.choices(["add", "cas", "delete", "delete if"], [45, 40, 5, 10])[0]
        if kind == "add":
            add = "UPDATE counter SET c_value = c_value + ? WHERE c_id = ? RETURNING c_value"
            return Statement(add, (amount, counter)), "add", None, amount
        if kind == "cas":
            update = "UPDATE counter SET c_value = ? WHERE c_id = ? AND c_value = ?"
            values = (amount, counter, last)
            return Statement(f"{update} RETURNING c_value", values), "cas", last, amount
        delete = "DELETE FROM counter WHERE c_id = ?"
        if kind == "delete":
            return Statement(delete, (counter,)), "write", None, None
        delete_if = f"{delete} AND c_value = ? RETURNING c_value"
        return Statement(delete_if, (counter, last)), "cas", last, None

    # ------------------------------------------------------------ invariants

    async def check(self, database: Database, journal: Journal) -> None:
        over = _now()
        final: dict[str, Values] = {}
        for key, write in self._writes.items():
            answer = journal.acknowledged.get(key)
            dropped = self._recorded(key, write, answer, over)
            if dropped is not None:
                final[str(write.dropped)] = dropped
        for (number,) in await database.fetch("SELECT l_id FROM list"):
            for by_view in (True, False):
                queries = self.form.queries(number, by_view)
                found = [await database.fetch(sql, parameters) for sql, parameters in queries]
                final[str(number)] = self.form.values(found) or ()
        anomalies = serializable.check(self.history, final)
        assert not anomalies, [str(anomaly) for anomaly in anomalies[:5]]
        self._complete_counts(journal, over)
        if self.judge_counts:
            verdict = linearizable.check(self.counts, self.initial)
            assert verdict.linearizable, (verdict.key, verdict.description)

    def _recorded(
        self, key: str, write: _Write, answer: TransactionResult | None, over: float
    ) -> Values | None:
        """Add a write to the history; return the last values of a list that it retired."""
        dropped, reported = None, write.appends
        if answer is not None and write.dropped is not None:
            dropped = self.form.dropped(answer.statements)
            reported = () if dropped is None else (Read(str(write.dropped), dropped),)
        elif answer is not None:
            reported = tuple(self.form.reported(write.appends, answer.statements))
        known = write.completed is not None
        self.history.append(
            Transaction(
                key,
                (*write.looked, *reported),
                # The client goes on without the result, so this transaction precedes none of its
                # later ones.
                write.process if known else key,
                write.invoked,
                write.completed if known else over,
                outcome="failed" if answer is None else "ok",
                bookmark=known,
                commit_ts=None if answer is None else answer.commit_ts,
            )
        )
        return dropped

    def _complete_counts(self, journal: Journal, over: float) -> None:
        """Add the results of answered requests; failed ones are left out."""
        for number, (key, begun) in enumerate(self._counted.items(), CLIENTS):
            answer = journal.acknowledged.get(key)
            if answer is None:
                continue
            rows = answer.statements[0].rows
            result: Any = NOT_REPORTED
            if begun.kind == "add":
                result = rows[0][0] if rows else None
            elif begun.kind == "cas":
                result = bool(rows)
            known = replace(begun, result=result)
            if begun.returned is None:
                known = replace(known, process=number, returned=_microseconds(over))
            self.counts.append(known)


def _operation(
    client: Client, counter: int, kind: Any, call: int, **known: Any
) -> linearizable.Operation:
    fields = {"returned": None, **known}
    return linearizable.Operation(int(client.name[1:]), str(counter), kind, call, **fields)


def _completed(reported: TransactionResult | None) -> float | None:
    """The time when all readers must see the result; None: unknown."""
    return _now() if reported is not None and reported.applied else None


def _now() -> float:
    return asyncio.get_running_loop().time()


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


def _now_us() -> int:
    return _microseconds(_now())
