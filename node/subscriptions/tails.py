"""The tail of a relation or view: its changes from now on, for all its subscribers at this node.

    news ─▶ newest moment ─▶ changes since the last moment ─▶ queues of the subscribers

The changes are found once for all subscribers, and divided among them by what they want. A tail
lives while it has subscribers. It holds the snapshot of its last moment, which the next step
compares.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

import structlog

from hornbeam_server.node.subscriptions.changes import Step, Wanted, divided, step
from hornbeam_server.node.subscriptions.sources import Altered, Source
from hornbeam_server.schema.errors import HornbeamError, Overloaded, Unavailable
from hornbeam_server.schema.turns import chunks
from hornbeam_server.storage.together import first_of, settled

IDLE_S = 10.0
"""Without changes, the moment advances after this time, or after a third of the time for which a
moment is kept: a subscriber that has lost its connection goes on there."""
ALONE_S, AMONG_OTHERS_S = 0.005, 0.05
"""Minimum time between two steps of a node that serves alone, and of one that asks others."""
PAUSE_S, LONGEST_PAUSE_S = 0.05, 5.0
"""First and longest pause after a failure that passes; it doubles."""
SHARE = 0.5
"""Maximum share of the time in which changes are searched."""
WOKEN_AT_ONCE = 200
"""Other work of the node gets a turn after so many subscribers were woken."""
QUEUE_BYTES = 16 << 20
"""Maximum bytes of the changes that wait for a subscriber."""

_LOG = structlog.get_logger(__name__)


class Queue:
    """The steps that wait for one subscriber. It wants the rows that match `wanted`."""

    __slots__ = ("_bytes", "_error", "_steps", "_waiter", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._steps: deque[Step] = deque()
        self._bytes = 0
        self._error: HornbeamError | None = None
        self._waiter: asyncio.Future[None] | None = None
        """Done when the subscriber, which waits, is to look again."""

    @property
    def waiting(self) -> bool:
        """Do steps wait?"""
        return bool(self._steps)

    def put(self, one: Step) -> None:
        """Add a step. The subscriber takes it after `wake`."""
        if self._error is not None:
            return
        self._steps.append(one)
        self._bytes += one.size
        if self._bytes > QUEUE_BYTES:
            self._steps.clear()
            self.end(
                Overloaded(
                    f"This subscriber is too slow: {self._bytes >> 20} MB of changes wait for it.",
                    cure="Subscribe again from the last moment that was received.",
                )
            )

    def end(self, error: HornbeamError) -> None:
        """Let the subscriber have the steps that wait, and then the error."""
        self._error = self._error or error
        self.wake()

    def clear(self) -> None:
        """Forget the steps that wait."""
        self._steps.clear()
        self._bytes = 0

    async def next(self, within_s: float) -> Step | None:
        """The next step; None if there is none within the time. Raises the error that ends the
        subscription."""
        if not self._steps and self._error is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await settled(self._waiter, within_s)
        if self._steps:
            found = self._steps.popleft()
            self._bytes -= found.size
            return found
        if self._error is not None:
            raise self._error
        return None

    def wake(self) -> None:
        """Let the subscriber look again, if it waits."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Tail:
    """The changes of one source from `moment` on. `ended` is called when no subscriber is left, or
    the source cannot go on."""

    def __init__(self, source: Source, moment: int, ended: Callable[[Tail], None]) -> None:
        self.source = source
        self.moment = moment
        self._ended = ended
        self._clock = source.access.parts.ports.clock
        self._queues: set[Queue] = set()
        self._advanced = asyncio.Event()
        self._held = contextlib.ExitStack()
        self._held.enter_context(source.access.holding(moment))
        self._task = asyncio.ensure_future(self._run())

    @property
    def subscribers(self) -> int:
        return len(self._queues)

    def join(self, wanted: Wanted) -> Queue:
        """The queue of a new subscriber. It gets the steps after the present `moment`."""
        queue = Queue(wanted)
        self._queues.add(queue)
        return queue

    def leave(self, queue: Queue) -> None:
        self._queues.discard(queue)
        if not self._queues:
            self._task.cancel()
            self._close()

    def end(self, error: HornbeamError) -> None:
        """End all subscriptions with an error."""
        for queue in self._queues:
            queue.end(error)
        self._task.cancel()
        self._close()

    async def reached(self, moment: int) -> None:
        """Return once the tail is at or after a moment."""
        while self.moment < moment:
            await self._advanced.wait()

    def _close(self) -> None:
        self._held.close()
        self._ended(self)

    async def _run(self) -> None:
        pause_s = PAUSE_S
        least_s = ALONE_S if self.source.access.member is None else AMONG_OTHERS_S
        idle_s = min(IDLE_S, self.source.access.kept_s / 3)
        while True:
            try:
                await first_of(self.source.news(self.moment), self._clock.sleep(idle_s))
                began = self._clock.monotonic()
                await self._advance()
                took_s, pause_s = self._clock.monotonic() - began, PAUSE_S
                await self._clock.sleep(max(took_s * (1 / SHARE - 1), least_s))
            except HornbeamError as error:
                if not isinstance(error, Unavailable) or isinstance(error, Altered):
                    self.end(error)
                    return
                _LOG.info("changes are searched again", name=self.source.name, error=str(error))
                await self._clock.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            except Exception as error:  # a bug must not leave subscribers without an end
                _LOG.error("a subscription failed", name=self.source.name, exc_info=error)
                self.end(Unavailable("The changes cannot be found.", cure="Subscribe again."))
                return

    async def _advance(self) -> None:
        """Go on to the newest moment, with the changes until then."""
        upto = await self.source.newest()
        if upto <= self.moment:
            return
        changes = await self.source.changes(self.moment, upto)
        size = self.source.size
        by_wish = divided(changes, {queue.wanted for queue in self._queues})
        steps = {wanted: step(upto, some, size) for wanted, some in by_wish.items()}
        # Nothing waits until the moment is set: a new subscriber gets all of the step, or nothing.
        concerned = [queue for queue in self._queues if queue.wanted in steps]
        for queue in concerned:
            queue.put(steps[queue.wanted])
        self.moment = upto
        self._held.close()
        self._held.enter_context(self.source.access.holding(upto))
        self._advanced.set()
        self._advanced = asyncio.Event()
        for some in chunks(concerned, WOKEN_AT_ONCE):
            for queue in some:
                queue.wake()
            await asyncio.sleep(0)
