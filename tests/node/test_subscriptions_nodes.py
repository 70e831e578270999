"""Subscriptions and live views over several nodes: changes come from the memory of the nodes, in
fractions of a second, and from the logs when a node has died."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from hornbeam_server.node.subscriptions import differences
from hornbeam_server.txlayer.cluster import recent
from hornbeam_server.txlayer.cluster.links import Links
from hornbeam_server.txlayer.cluster.messages import BatchesAfter, Later, Recent, RecentCommits
from hornbeam_server.txlayer.cluster.segment_positions import Following
from tests.node.live_world import TOTALS, apply, fill, order, view
from tests.txlayer.nodes_world import nodes
from tests.virtual_time import in_virtual_time

SOON_S = 0.4
"""Less than the second in which nodes looked for changes of others before."""
NOW = f"CREATE MATERIALIZED VIEW now_totals WITH (refresh = 'immediate') AS {TOTALS};\n"


async def three(*views):
    """Three nodes with the views over a customer and an order."""
    world = await nodes(0, 0, 0, resident_refresh=True)
    leader = world.leader
    await leader.do(apply(leader.database, *views))
    await leader.do(fill(leader.database, customers=1, orders=1))
    await world.settled()
    return world


async def shown(world, group="live"):
    """Wait until the group's views are built and show all commits."""
    while True:
        state = await world.leader.do(world.leader.database.deferred.state(group))
        if state.as_of >= world.leader.database.committer.acknowledged and state.batch is None:
            return
        await asyncio.sleep(0.05)


class Reader:
    """A subscriber at a node, with the rows that it holds."""

    def __init__(self, node, name, moment=None):
        self.node = node
        self.context = node.database.subscriptions.open(name, moment=moment)
        self.changes = []

    async def __aenter__(self):
        self.subscription = await self.node.do(self.context.__aenter__())
        return self

    async def __aexit__(self, *_):
        if not self.node.process.dead:
            await self.node.do(self.context.__aexit__(None, None, None))

    async def step(self, within_s):
        async with asyncio.timeout(within_s):
            step = await self.node.do(self.subscription.next())
        self.changes += [(change.before, change.after) for change in step.changes]
        return step


async def warm(world, reader, number):
    """One change more: the first ones may come from the logs, since no node kept them in memory."""
    await world.leader.do(order(world.leader.database, number, 0, 0))
    return await reader.step(30)


def nothing_else(*_, **__):
    raise AssertionError("the changes are in memory")


@pytest.mark.parametrize("name", ["orders", "now_totals"])
@in_virtual_time
async def test_commits_of_another_node_come_from_its_memory(name, monkeypatch):
    world = await three(NOW)
    writer, *others = sorted(world.all, key=lambda node: not node.database.keeper.leads)
    async with Reader(others[0], name) as reader:
        await warm(world, reader, 10)
        await asyncio.sleep(2)
        monkeypatch.setattr(Following, "between", nothing_else)
        for number in range(20, 25):
            done = await writer.do(order(writer.database, number, 0, number))
            step = await reader.step(SOON_S)
            assert step.moment >= done
        assert len(reader.changes) == 6
    await world.end()


@in_virtual_time
async def test_a_live_view_of_another_node_is_followed_key_by_key(monkeypatch):
    world = await three(view(), view("others", "SELECT o_note FROM orders", interval="100 ms"))
    await shown(world)
    doing = [node for node in world.all if node.database.live.does_batch("live")]
    assert len(doing) == 1
    other = next(node for node in world.all if node not in doing)
    async with Reader(other, "totals") as reader:
        await warm(world, reader, 10)
        await asyncio.sleep(2)
        monkeypatch.setattr(Following, "between", nothing_else)
        monkeypatch.setattr(differences, "of_scans", nothing_else)
        for number in range(20, 25):
            done = await other.do(order(other.database, number, 0, number))
            step = await reader.step(SOON_S)
            assert step.moment >= done
        assert reader.changes[-1] == (("c0", 6, 86), ("c0", 7, 110))
    await world.end()


@in_virtual_time
async def test_nodes_are_asked_once_for_all_names_while_nothing_happens(monkeypatch):
    world = await three(NOW, view(), view("others", "SELECT o_note FROM orders"))
    await shown(world)
    reading = next(n for n in world.all if not n.database.live.does_batch("live"))
    names = ["orders", "now_totals", "totals", "others"]
    asked, ask = Counter(), Links.ask

    async def counted(links, member, request):
        if links is reading.database.member._links:
            asked[type(request)] += 1
        return await ask(links, member, request)

    monkeypatch.setattr(Links, "ask", counted)
    async with AsyncExitStack() as stack:
        for name in names:
            await stack.enter_async_context(Reader(reading, name))
        await asyncio.sleep(2)
        asked.clear()
        await asyncio.sleep(8)
    assert 10 <= asked[Later] <= 2 * 12, asked
    assert 5 <= asked[BatchesAfter] <= 12, asked
    await world.end()


@in_virtual_time
async def test_commits_of_a_node_that_has_died_come_from_its_log(monkeypatch):
    world = await three()
    writer, reading = [node for node in world.all if not node.database.keeper.leads]
    async with Reader(reading, "orders") as reader:
        await warm(world, reader, 10)
        await asyncio.sleep(2)
        monkeypatch.setattr(recent, "LOOK_S", 5.0)
        done = await writer.do(order(writer.database, 20, 0, 20))
        writer.die()
        while reader.changes[-1][1][0] != 20:
            await reader.step(60)
        assert reader.subscription.reached >= done
        assert Counter(after for _, after in reader.changes)[(20, 0, 20, None)] == 1
    await world.end()


@in_virtual_time
async def test_what_is_not_all_in_memory_is_not_answered(monkeypatch):
    world = await three()
    reading, other = [node for node in world.all if not node.database.keeper.leads]
    commits = reading.database.member.commits
    reading.database.committer.follow("test")

    async def ordered(number):
        """The snapshots before and after an order at another node."""
        _, after = await reading.do(reading.database.snapshot_after(0))
        await other.do(order(other.database, number, 0, number))
        return after, (await reading.do(reading.database.snapshot_after(0)))[1]

    assert await reading.do(commits.between(*await ordered(20))) is None, "no other node kept them"
    after, upto = await ordered(21)
    found = await reading.do(commits.between(after, upto))
    assert [len(batch.commits) for batch in found] == [1]
    clock = reading.database.member._view.assignment.clock
    assert await reading.do(commits.between(clock - 1, upto)) is None
    answer = await other.do(other.database.member.commits.recent(Recent(0, upto)))
    assert answer == RecentCommits(other.name, None)
    monkeypatch.setattr(recent, "ANSWER_BYTES", 1)
    assert await reading.do(commits.between(after, upto)) is None
    await world.end()
