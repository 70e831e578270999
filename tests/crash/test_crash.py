"""kill -9 under load: no acknowledged commit is lost, none is torn, views are right.

Clients move money between accounts over REST, each transfer in one transaction that also writes its
two entries, and record what was acknowledged. The server is killed at random times, once soon after
its start, and while an administrator alters the relations all the time. After the last restarts
every acknowledged transfer is there; unanswered transfers are sent again under their keys and have
one effect; all sums agree; `verify` finds no difference.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx

from tests.crash.crash_server import ACCOUNTS, OPENING

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CLIENTS, ROUNDS = 8, 3


@contextmanager
def server(folder):
    """Start a server process, and kill it when the context ends."""
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "crash_server.py"), str(folder / "data")],
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | {"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def address_of(process, folder):
    """The address of the server, once it listens; its log lines come before the port."""
    for line in process.stdout:
        if line.strip().isdigit():
            return f"http://127.0.0.1:{int(line)}"
    raise AssertionError((folder / "server.log").read_text())


class Journal:
    """The requested and the acknowledged transfers."""

    def __init__(self):
        self.asked = {}
        self.acknowledged = set()
        self.heard = asyncio.Event()

    def transfer(self, random_):
        number = len(self.asked)
        a, b = random_.sample(range(ACCOUNTS), 2)
        self.asked[number] = (a, b, random_.randint(1, 50))
        return number

    async def send(self, client, number, *, patient=False):
        """Send a transfer. `patient`: again, while a relation has another name."""
        a, b, amount = self.asked[number]
        move = "UPDATE account SET a_balance = a_balance + ? WHERE a_id = ?"
        entries = "INSERT INTO entry VALUES (:t, :a, :minus), (:t, :b, :plus)"
        values = {"t": number, "a": a, "b": b, "minus": -amount, "plus": amount}
        statements = [
            {"sql": move, "parameters": [-amount, a]},
            {"sql": entries, "parameters": values},
            {"sql": move, "parameters": [amount, b]},
        ]
        while True:
            answer = await client.post(
                "/v1/transactions",
                json={"statements": statements},
                headers={"Idempotency-Key": f"transfer {number}"},
            )
            if not patient or answer.json().get("code") != "sql-unknown-name":
                break
            await asyncio.sleep(0.01)
        assert answer.status_code in (200, 202), answer.text
        self.acknowledged.add(number)
        self.heard.set()


async def load_until_killed(address, journal, random_, process, seconds, sql=""):
    """Transfer until the server is killed: some `seconds` after the first answer, or after the
    statement `sql`, which alters a relation, was sent to be carried out."""

    async def work():
        async with httpx.AsyncClient(base_url=address, timeout=10) as client:
            while True:
                try:
                    await journal.send(client, journal.transfer(random_), patient=bool(sql))
                except httpx.TransportError:
                    return

    async def kill():
        journal.heard = asyncio.Event()
        await journal.heard.wait()
        async with httpx.AsyncClient(base_url=address, timeout=20) as client:
            altering = await begun(client, sql) if sql else asyncio.sleep(0)
            _, pending = await asyncio.wait([asyncio.ensure_future(altering)], timeout=seconds)
            process.send_signal(signal.SIGKILL)
            await asyncio.gather(*pending, return_exceptions=True)

    await asyncio.gather(kill(), *(work() for _ in range(CLIENTS)))


async def begun(client, sql):
    """Plan a statement as the client library does. Returns the request that carries it out."""
    changed = await client.post("/v1/schema/alter", json={"sql": sql})
    assert changed.status_code == 200, changed.text
    body = {name: changed.json()[name] for name in ("ddl", "renames", "usings")}
    body |= {"workload": None, "ddl_file": ""}
    planned = await client.post("/v1/schema/plan", json=body)
    assert planned.status_code == 200, planned.text
    body |= {"plan_id": planned.json()["plan_id"], "allow_drop": True}
    return client.post("/v1/schema/apply", json=body)


async def schema_of(client):
    return (await client.get("/v1/schema")).json()["ddl"]


RENAMED = "TABLE acc ("


def renaming(ddl):
    assert RENAMED not in ddl
    return "ALTER TABLE account RENAME TO acc"


def converting(ddl):
    """A statement that writes all rows again."""
    to = "TEXT" if "e_note INTEGER" in ddl else "INTEGER"
    return f"ALTER TABLE entry ALTER e_note TYPE {to} USING CAST(e_note AS {to})"


async def rows(client, sql):
    answer = await client.post("/v1/query", json={"sql": sql})
    assert answer.status_code == 200, answer.text
    return [tuple(row) for row in answer.json()["rows"]]


async def check(address, journal):
    async with httpx.AsyncClient(base_url=address, timeout=20) as client:
        there = {number for (number,) in await rows(client, "SELECT e_transfer FROM entry")}
        assert journal.acknowledged <= there, "an acknowledged transfer is lost"
        for number in journal.asked.keys() - journal.acknowledged:
            await journal.send(client, number)
        entries = await rows(client, "SELECT e_transfer, e_a_id, e_amount FROM entry")
        balances = dict.fromkeys(range(ACCOUNTS), OPENING)
        expected = set()
        for number, (a, b, amount) in journal.asked.items():
            expected |= {(number, a, -amount), (number, b, amount)}
            balances[a] -= amount
            balances[b] += amount
        assert set(entries) == expected
        assert len(entries) == len(expected)
        assert dict(await rows(client, "SELECT * FROM account")) == balances
        joined = "SELECT a_id, sum(e_amount)::BIGINT, max(a_balance) FROM account, entry"
        for a, total, balance in await rows(client, f"{joined} WHERE a_id = e_a_id GROUP BY a_id"):
            assert OPENING + total == balance == balances[a]
        answer = await client.post("/v1/verify", json={})
        report = json.loads(answer.text.strip().splitlines()[-1])["report"]
        assert report["differences"] == 0, report


def test_kill_and_restart(tmp_path):
    random_ = random.Random(7)
    journal = Journal()
    for _ in range(ROUNDS):
        with server(tmp_path) as process:
            address = address_of(process, tmp_path)
            seconds = random_.uniform(0.2, 0.9)
            asyncio.run(load_until_killed(address, journal, random_, process, seconds))
            assert process.wait() == -signal.SIGKILL
    with server(tmp_path) as process:  # killed while it starts and recovers
        time.sleep(1.2)
    with server(tmp_path) as process:
        asyncio.run(check(address_of(process, tmp_path), journal))
        process.terminate()
        assert process.wait(10) in (0, -signal.SIGTERM)
    assert len(journal.acknowledged) > 10 * ROUNDS
    with server(tmp_path) as process:
        asyncio.run(check(address_of(process, tmp_path), journal))


def test_kill_while_relations_are_altered(tmp_path):
    """The server dies in renames and in copies of rows. Whatever the schema is then, all rows are
    there, and the schema can be altered again."""
    random_, journal = random.Random(11), Journal()

    async def ask(address, work):
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            return await work(client)

    async def alter(client, sql):
        answer = await (await begun(client, sql))
        assert answer.status_code == 200, answer.text

    async def settle(client):
        """Give the relation its name again. Returns the schema."""
        if RENAMED in await schema_of(client):
            await alter(client, "ALTER TABLE acc RENAME TO account")
        return await schema_of(client)

    async def end(client):
        await alter(client, converting(await settle(client)))
        notes = await rows(client, "SELECT DISTINCT CAST(e_note AS TEXT) FROM entry")
        assert set(notes) <= {("1",)}

    with server(tmp_path) as process:
        added = partial(alter, sql="ALTER TABLE entry ADD e_note INTEGER DEFAULT 1")
        asyncio.run(ask(address_of(process, tmp_path), added))
    for statement, seconds in ((renaming, 0.02), (converting, 0.1), (renaming, 0.2),
                               (converting, 0.4)):  # fmt: skip
        with server(tmp_path) as process:
            address = address_of(process, tmp_path)
            sql = statement(asyncio.run(ask(address, settle)))
            asyncio.run(load_until_killed(address, journal, random_, process, seconds, sql))
            assert process.wait() == -signal.SIGKILL
    with server(tmp_path) as process:
        address = address_of(process, tmp_path)
        asyncio.run(ask(address, end))
        asyncio.run(check(address, journal))
    assert len(journal.acknowledged) > 20
