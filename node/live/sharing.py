"""The views of a batch are divided among the nodes, which compute them at the same time.

The node that does a batch sends the commits of the batch to the owners of the views' slots, and
computes its own views at the same time. It alone puts rows. The views of a node that refuses,
fails, or takes `HELP_S` longer than this one, are computed here. So another node can make a batch
faster, but not stop it, and errors are those of this node.

A batch is divided if the one before took as long as the setting `resident_share_s` says, and its
commits are in memory and fit in a message. Views that are built are not divided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from hornbeam_server.maintain.deltas.batches import Writes
from hornbeam_server.maintain.deltas.executors import FEW
from hornbeam_server.node.assembly import Parts
from hornbeam_server.node.deferred_views import BatchWork
from hornbeam_server.node.live.computation import Computation, Computed
from hornbeam_server.node.live.feed import Fed, of_commits
from hornbeam_server.node.live.outcomes import Left
from hornbeam_server.schema.errors import StalePlan, Unavailable
from hornbeam_server.storage.ports import Put
from hornbeam_server.txlayer.cluster.messages import Compute
from hornbeam_server.txlayer.cluster.shared_views import ROWS_BYTES, SharedViews
from hornbeam_server.txlayer.commit.change_ring import Applied

HELP_S = 5.0
"""Maximum seconds for which a node waits for another one when its own views are computed. A session
is shorter by default, so the connection to a node that has died breaks before."""
REMOTE_ROWS = 10 * FEW
"""Maximum rows of a batch over a remote store, whose rows are computed in the node's own loop."""

_Answer = asyncio.Task[Mapping[str, Sequence[Put]] | None]


class Sharing:
    """Computes the batches of one node, with the help of others, and helps them. `members` are the
    others; None: this node serves alone."""

    def __init__(self, parts: Parts, computation: Computation, members: SharedViews | None) -> None:
        self._keeper = parts.keeper
        self._computation = computation
        self._members = members
        self._share_s = parts.settings.resident_share_s
        self.most_rows = parts.settings.resident_rows
        if parts.ports.store.remote:
            self.most_rows = min(self.most_rows, REMOTE_ROWS)
        if members is not None:
            members.compute = self._help

    async def computed(self, work: BatchWork, last_s: float) -> Computed:
        """The rows of a batch, after one that took `last_s` seconds. Raises the errors of
        `Computation.of`."""
        fed = await self._computation.feed.of(work)
        with self._asked(work, fed, last_s) as asked:
            views = frozenset(name for names in asked for name in names)
            own = await self._computation.rows(work, fed, self.most_rows, without=views)
            if not asked:
                return own
            await asyncio.wait(asked.values(), timeout=HELP_S)
            answers = {names: task.result() for names, task in asked.items() if task.done()}
            return await self._completed(work, fed, own, views, answers)

    @contextmanager
    def _asked(
        self, work: BatchWork, fed: Fed, last_s: float
    ) -> Iterator[Mapping[tuple[str, ...], _Answer]]:
        """The answers under way of other nodes, each by the views that the node computes."""
        asked: dict[tuple[str, ...], _Answer] = {}
        commits = fed.commits
        if self._members is not None and commits and last_s >= self._share_s:
            divided = self._divided(work, commits)
            sent = _sent(commits) if divided else []
            for member, names in divided.items():
                request = Compute(
                    work.group,
                    work.as_of,
                    work.upto,
                    work.catalog.version,
                    sorted(work.usable),
                    names,
                    sent,
                )
                asked[tuple(names)] = asyncio.ensure_future(self._members.ask(member, request))
        try:
            yield asked
        finally:
            for task in asked.values():
                task.cancel()

    def _divided(self, work: BatchWork, commits: Sequence[Applied]) -> Mapping[str, list[str]]:
        """The views that other nodes compute, by node."""
        if sum(batch.bytes for batch in commits) > ROWS_BYTES:
            return {}
        assert self._members is not None
        views = work.catalog.deferred_view
        return self._members.by_member(
            name for name in work.refreshed if views[name].declared.refresh.follows_changes
        )

    async def _completed(
        self,
        work: BatchWork,
        fed: Fed,
        own: Computed,
        views: frozenset[str],
        answers: Mapping[tuple[str, ...], Mapping[str, Sequence[Put]] | None],
    ) -> Computed:
        """`own` with the rows of `views`, from the answers or else computed here."""
        answered = {names: rows for names, rows in answers.items() if rows is not None}
        writes: list[Writes] = [
            {table: [*puts] for table, puts in rows.items()} for rows in answered.values()
        ]
        left = views.difference(*answered)
        if left:
            names = tuple(name for name in work.refreshed if name in left)
            rest = replace(work, refreshed=names, built=())
            writes += (await self._computation.rows(rest, fed, self.most_rows)).writes
        return own._replace(writes=[*own.writes, *writes])

    async def _help(self, request: Compute) -> Mapping[str, Sequence[Put]]:
        """The rows that another node has asked for. Raises HornbeamError."""
        catalog = self._keeper.state.catalog
        if request.catalog != catalog.version:
            raise StalePlan(f"This node uses catalog {catalog.version}, not {request.catalog}.")
        work = BatchWork(
            request.group,
            request.after,
            request.upto,
            catalog,
            tuple(request.views),
            (),
            frozenset(request.usable),
        )
        commits = [Applied(ts, [[record]], {}, len(record)) for ts, record in request.commits]
        try:
            computed = await self._computation.rows(work, of_commits(commits), self.most_rows)
        except Left as left:
            raise Unavailable(str(left)) from None
        return {table: puts for each in computed.writes for table, puts in each.items()}


def _sent(commits: Sequence[Applied]) -> list[tuple[int, bytes]]:
    """Commits as a message has them."""
    return [(batch.ts, b"".join(pieces)) for batch in commits for pieces in batch.commits]
