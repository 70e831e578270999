"""kill -9 under load: no acknowledged commit is lost, none is torn, views are right.

Clients move money between accounts over REST, each transfer in one transaction that also writes its
two entries, and record what was acknowledged. The server is killed at random times, and once soon
after its start. After the last restarts every acknowledged transfer is there; unanswered transfers
are sent again under their keys and have one effect; all sums agree; `verify` finds no difference.
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

    async def send(self, client, number):
        a, b, amount = self.asked[number]
        move = "UPDATE account SET a_balance = a_balance + ? WHERE a_id = ?"
        entries = "INSERT INTO entry VALUES (:t, :a, :minus), (:t, :b, :plus)"
        values = {"t": number, "a": a, "b": b, "minus": -amount, "plus": amount}
        statements = [
            {"sql": move, "parameters": [-amount, a]},
            {"sql": entries, "parameters": values},
            {"sql": move, "parameters": [amount, b]},
        ]
        answer = await client.post(
            "/v1/transactions",
            json={"statements": statements},
            headers={"Idempotency-Key": f"transfer {number}"},
        )
        assert answer.status_code in (200, 202), answer.text
        self.acknowledged.add(number)
        self.heard.set()


async def load_until_killed(address, journal, random_, process, seconds):
    async def work():
        async with httpx.AsyncClient(base_url=address, timeout=10) as client:
            while True:
                try:
                    await journal.send(client, journal.transfer(random_))
                except httpx.TransportError:
                    return

    async def kill():
        journal.heard = asyncio.Event()
        await journal.heard.wait()
        await asyncio.sleep(seconds)
        process.send_signal(signal.SIGKILL)

    await asyncio.gather(kill(), *(work() for _ in range(CLIENTS)))


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
