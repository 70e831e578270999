"""Subscriptions as lines of JSON, or as server-sent events (docs/subscriptions.md has the format).

A step is encoded once for all subscribers that get the same changes in the same form.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec

from hornbeam_server import __version__
from hornbeam_server.api.rest import problems
from hornbeam_server.api.rest.serializers import column_documents, json_rows
from hornbeam_server.node.subscriptions.changes import RowChange, Step
from hornbeam_server.node.subscriptions.subscriptions import Subscription
from hornbeam_server.query.binding.names import OutputColumn
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.schema.turns import chunks
from hornbeam_server.schema.types import Row

CHANGES_AT_ONCE = 500
"""Maximum changes, or rows, of one message."""

_encode = msgspec.json.encode
_OPERATIONS = {"insert": "c", "update": "u", "delete": "d"}
"""Debezium's names."""


@dataclass(frozen=True, slots=True)
class Form:
    """How messages are written. `events`: as server-sent events instead of lines. `debezium`: each
    change is a message of its own, in Debezium's envelope."""

    events: bool = False
    debezium: bool = False

    def framed(self, document: dict[str, Any], moment: int | None = None) -> bytes:
        """A message. With a `moment` the subscriber has all changes up to it."""
        data = _encode(document, enc_hook=str)
        if not self.events:
            return data + b"\n"
        event = document.get("type", "change")
        place = b"" if moment is None else b"id: %d\n" % moment
        return b"event: %s\n%sdata: %s\n\n" % (event.encode(), place, data)


class ChangeStream:
    """The messages of one subscription."""

    def __init__(
        self,
        subscription: Subscription,
        form: Form,
        heartbeat_s: float,
        still: Callable[[], Awaitable[None]],
        *,
        whole: bool,
        lasts_s: float = math.inf,
    ) -> None:
        """`whole`: the stream begins with all rows. It ends after `lasts_s`. Without changes a
        message comes after `heartbeat_s`. `still` raises an error when the client may not read any
        more; it is called in every such interval."""
        self._subscription = subscription
        self._form = form
        self._heartbeat_s = heartbeat_s
        self._still = still
        self._whole = whole
        self._lasts_s = lasts_s
        self._columns = [OutputColumn(c.name, c.type) for c in subscription.columns]

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The messages until an error, which is the last one."""
        try:
            async with aclosing(self._messages()) as messages:
                async for message in messages:
                    yield message
        except HornbeamError as error:
            reached = self._subscription.reached
            document = {"type": "error", "error": problems.problem(error), "moment": reached}
            yield self._form.framed(document)

    async def _messages(self) -> AsyncGenerator[bytes, None]:
        subscription, framed = self._subscription, self._form.framed
        yield framed(
            {
                "type": "begin",
                "name": subscription.name,
                "columns": column_documents(self._columns),
                "key": list(subscription.key),
                "moment": subscription.moment,
                "rows": self._whole,
            }
        )
        if self._whole:
            async with aclosing(subscription.rows()) as batches:
                async for batch in batches:
                    for some in chunks(batch, CHANGES_AT_ONCE):
                        yield b"".join(self._row_messages(some))
            yield self._reached(subscription.moment)
        async for piece in self._followed():
            yield piece

    async def _followed(self) -> AsyncGenerator[bytes, None]:
        """The messages of the changes, and those without changes."""
        time = asyncio.get_running_loop().time
        checked, end = time(), time() + self._lasts_s
        while (left_s := end - time()) > 0:
            wait_s = min(self._heartbeat_s, left_s)
            step = await self._subscription.next_within(wait_s)
            if step is None:
                yield self._reached(self._subscription.reached)
                if wait_s == left_s:  # a timer may fire a moment before `end`
                    return
            else:
                for piece in self._pieces(step):
                    yield piece
            if time() - checked >= self._heartbeat_s:
                checked = time()
                await self._still()

    def _reached(self, moment: int) -> bytes:
        return self._form.framed({"type": "moment", "moment": moment}, moment)

    def _row_messages(self, rows: Sequence[Row]) -> Iterator[bytes]:
        shown = self._shown(rows)
        if not self._form.debezium:
            yield self._form.framed({"type": "rows", "rows": shown})
            return
        for row in shown:
            yield self._form.framed(self._envelope("r", None, row, self._subscription.moment, ""))

    def _shown(self, rows: Sequence[Row | None]) -> Sequence[Row]:
        shown = [row for each in rows if (row := self._subscription.shown(each)) is not None]
        return json_rows(shown, self._columns)

    def _pieces(self, step: Step) -> Sequence[bytes]:
        """The messages of a step. The last one has its moment."""
        found = step.encoded.get(self._form)
        if found is None:
            make = self._envelopes if self._form.debezium else self._change_messages
            found = step.encoded[self._form] = [*make(step)]
        return found

    def _change_messages(self, step: Step) -> Iterator[bytes]:
        parts = [*chunks(step.changes, CHANGES_AT_ONCE)]
        for number, part in enumerate(parts, start=1):
            moment = step.moment if number == len(parts) else None
            changes = [*map(self._change, part)]
            yield self._form.framed(
                {"type": "changes", "moment": moment, "changes": changes}, moment
            )

    def _change(self, change: RowChange) -> dict[str, Any]:
        document: dict[str, Any] = {
            "operation": change.operation,
            "before": self._one(change.before),
            "after": self._one(change.after),
        }
        if change.commit:
            document |= {"commit": change.commit, "transaction_id": change.transaction_id}
        if change.idempotency_key:
            document["idempotency_key"] = change.idempotency_key
        return document

    def _one(self, row: Row | None) -> Row | None:
        return None if row is None else self._shown([row])[0]

    def _envelopes(self, step: Step) -> Iterator[bytes]:
        last = len(step.changes)
        for number, change in enumerate(step.changes, start=1):
            document = self._envelope(
                _OPERATIONS[change.operation],
                self._one(change.before),
                self._one(change.after),
                change.commit or step.moment,
                change.transaction_id,
                change.idempotency_key,
            )
            yield self._form.framed(document, step.moment if number == last else None)
        yield self._reached(step.moment)

    def _envelope(
        self,
        operation: str,
        before: Row | None,
        after: Row | None,
        ts: int,
        transaction_id: str,
        idempotency_key: str = "",
    ) -> dict[str, Any]:
        names = [column.name for column in self._columns]

        def named(row: Row | None) -> dict[str, Any] | None:
            return None if row is None else dict(zip(names, row, strict=True))

        return {
            "before": named(before),
            "after": named(after),
            "op": operation,
            "ts_ms": ts,
            "source": {
                "version": __version__,
                "connector": "hornbeam",
                "name": "hornbeam",
                "ts_ms": ts,
                "snapshot": str(operation == "r").lower(),
                "table": self._subscription.name,
                "txId": transaction_id or None,
                "idempotencyKey": idempotency_key or None,
            },
        }
