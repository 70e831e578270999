"""A crash at every message between members: of the asking or the answering process, when the
message is sent, when it arrives, and when it is answered.

A node transfers between an account of its own and one of each of two others, so that every message
of docs/protocols/locks.md is sent; one process dies at the first message of a kind. The client
repeats its request with the same key at a survivor. Then there is one effect, no lock is left, and
the living nodes share the slots again.
"""

import asyncio
import contextlib
import enum

import pytest

from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.storage.simulated.loop import SimulatedLoop
from hornbeam_server.storage.simulated.peers import SimulatedPeers
from hornbeam_server.txlayer.cluster.membership_view import slot_of
from hornbeam_server.txlayer.cluster.messages import (
    Lock,
    Reach,
    Release,
    Request,
    Unfinished,
    decode_request,
)
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from hornbeam_server.txlayer.transactions.outcomes import transaction_id_for
from tests.txlayer.database_world import catalog_of
from tests.txlayer.nodes_world import Nodes, nodes

ACCOUNTS = 60
SCHEMA = "CREATE TABLE account (a_id INTEGER PRIMARY KEY, a_balance INTEGER NOT NULL);"
KEY = "transfer"


class Moment(enum.StrEnum):
    """A stage in the life of a message."""

    SENT = "sent"
    ARRIVED = "arrived"
    ANSWERED = "answered"


class Victim(enum.StrEnum):
    ASKING = "asking"
    ANSWERING = "answering"


class Trap:
    """Kills a process once, at the first message of a kind."""

    def __init__(self, kind: type[Request], moment: Moment, victim: Victim) -> None:
        self.kind, self.moment, self.victim = kind, moment, victim
        self.world: Nodes
        self.killed = ""
        self.armed = False

    def reached(self, moment: Moment, message: bytes, asking: str, answering: str) -> None:
        meant = self.armed and moment is self.moment and not self.killed
        if meant and isinstance(decode_request(message), self.kind):
            self.killed = asking if self.victim is Victim.ASKING else answering
            (node,) = [node for node in self.world.living if node.process.name == self.killed]
            asyncio.get_running_loop().in_world(0, node.die)
            node.process.crash()


class TrappedPeers(SimulatedPeers):
    """Peers that report every message to the trap."""

    trap: Trap

    async def connect(self, name, address, number):
        link = await super().connect(name, address, number)
        sent, answering = link.ask, address.rpartition(":")[0].replace("-", " ")

        def ask(message):
            future = sent(message)
            self.trap.reached(Moment.SENT, message, self.process.name, answering)
            return future

        link.ask = ask
        self.trap.names[name] = self.process.name
        return link

    async def answer(self, caller, message):
        asking = self.trap.names[caller.name]
        self.trap.reached(Moment.ARRIVED, message, asking, self.process.name)
        answer = await super().answer(caller, message)
        self.trap.reached(Moment.ANSWERED, message, asking, self.process.name)
        return answer


@pytest.mark.parametrize("victim", Victim)
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("kind", [Lock, Release, Reach, Unfinished])
def test_a_crash_at_a_message_loses_nothing(kind, moment, victim, monkeypatch):
    trap = Trap(kind, moment, victim)
    trap.names = {}
    monkeypatch.setattr("tests.txlayer.nodes_world.SimulatedPeers", TrappedPeers)
    monkeypatch.setattr(TrappedPeers, "trap", trap, raising=False)
    SimulatedLoop().run_until_complete(scenario(trap))


async def scenario(trap: Trap) -> None:
    world = await nodes(0, 0, 0, catalog=catalog_of(load_ddl(SCHEMA)))
    trap.world = world
    rows = ", ".join(f"({number}, 100)" for number in range(ACCOUNTS))
    await world.leader.transact(f"INSERT INTO account VALUES {rows}")
    await world.settled()
    first = world.all[0]
    mine, *others = [account_of(node, first) for node in world.all]
    request = TransactionRequest(
        (
            *(add(account, 1) for account in others),
            add(mine, -2),
        ),
        idempotency_key=KEY,
    )
    trap.armed = True
    await asked(first, first.database.transact(request))
    await asked(first, first.database.fetch("SELECT sum(a_balance) FROM account", strong=True))
    await asked(first, first.database.unfinished(transaction_id_for(KEY)))
    await asyncio.sleep(1)  # releases are sent in the background
    assert trap.killed, "no such message"
    await world.settled()
    await persistently(world.living[-1], request)
    for node in world.living:
        balance = "SELECT a_balance FROM account WHERE a_id = ?"
        found = [
            await node.do(node.database.fetch(balance, (account,), strong=True))
            for account in (mine, *others)
        ]
        assert found == [[(98,)], [(101,)], [(101,)]]
        assert await node.differences() == 0
    await asyncio.sleep(1)
    for node in world.living:
        assert node.database.locks.held_count == node.database.locks.waiting_count == 0
        assert not node.database.manager.unfinished
    await world.end()


def account_of(owner, asked_at) -> int:
    """An account whose root lock `owner` grants."""
    roots = asked_at.database.manager.state.roots
    return next(
        number
        for number in range(ACCOUNTS)
        if owner.database.member.owns(slot_of(roots.name("account", (number,))))
    )


def add(account: int, amount: int) -> Statement:
    return Statement(
        "UPDATE account SET a_balance = a_balance + ? WHERE a_id = ?", (amount, account)
    )


async def asked(node, work) -> None:
    """Run `work` at a node that may die, and ignore its result."""
    reply = asyncio.get_running_loop().create_future()

    async def run() -> None:
        with contextlib.suppress(HornbeamError):
            await work
        reply.set_result(None)

    if node.process.dead:
        work.close()
        return
    node.process.start(run())
    await asyncio.wait({reply}, timeout=5)


async def persistently(node, request: TransactionRequest) -> None:
    """Repeat a request until it succeeds, as a client without an answer does."""
    while True:
        try:
            await node.do(node.database.transact(request))
            return
        except HornbeamError as error:
            assert error.retryable, error  # noqa: PT017
        await asyncio.sleep(0.05)
