"""Subscriptions in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType

from hornbeam.aio.transport import AsyncTransport
from hornbeam.errors import Error
from hornbeam.subscriptions import PATH, BaseSubscription, Changes, Follower, cut_off


class Subscription(BaseSubscription):
    """The twin of `hornbeam.subscriptions.Subscription` in an event loop. It begins when it is
    entered."""

    def __init__(self, transport: AsyncTransport, follower: Follower) -> None:
        super().__init__(follower)
        self._transport = transport
        self._changes = self._followed()

    async def close(self) -> None:
        """End the subscription. Idempotent."""
        await self._changes.aclose()

    async def _followed(self) -> AsyncGenerator[Changes | None, None]:
        follower, begun, taken = self._follower, False, False
        while True:
            parameters = follower.parameters()
            try:
                stream = self._transport.stream(PATH, method="GET", params=parameters)
                async with stream as answer:
                    async for line in answer.lines():
                        changes = follower.take(line)
                        if not begun:
                            begun = True
                            yield None
                        if changes is not None:
                            taken = True
                            yield changes
                            follower.taken(changes)
                raise cut_off()
            except Error as error:
                pause_s = follower.pause_s(error, begun=taken)
            await asyncio.sleep(pause_s)

    def __aiter__(self) -> AsyncIterator[Changes]:
        return self

    async def __anext__(self) -> Changes:
        found = await anext(self._changes)
        assert found is not None  # only the first result is
        return found

    async def __aenter__(self) -> Subscription:
        await anext(self._changes)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
