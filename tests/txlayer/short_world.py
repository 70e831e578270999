"""Runs the same statements as short transactions and on the general path, and compares them."""

import datetime as dt
import itertools
import tempfile
from pathlib import Path
from unittest.mock import patch

import msgspec

from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.storage.log.records import Commit
from hornbeam_server.txlayer.statements.requests import TransactionRequest
from hornbeam_server.txlayer.transactions import manager as manager_module
from hornbeam_server.txlayer.transactions import outcomes
from tests.txlayer.database_world import opened, settled

commits_of = msgspec.msgpack.Decoder(Commit)
NOW = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)


class Numbered:
    """Ids that are the same in each run."""

    def __init__(self):
        self._numbers = itertools.count()

    def new(self):
        return f"{next(self._numbers):032x}"


class Counted:
    """A short transaction that notes whether it has ended without the general path."""

    def __init__(self, short, ended):
        self._short = short
        self._ended = ended

    async def prepared(self, path, plan):
        try:
            found = await self._short.prepared(path, plan)
        except HornbeamError:
            self._ended.append("error")
            raise
        if found is not None:
            self._ended.append("result")
        return found


async def run(database, statements, *, short):
    """For each statement: its result or its error, and what it has committed under which locks.
    Also returns how many statements were short to their end."""
    manager, commit, ended = database.manager, database.manager._commit, []
    manager._now, manager._ids = (lambda _: NOW), Numbered()
    seen, found = [], []

    def committing(attempt, prepared, ended):
        locks = sorted((name, mode.value) for name, mode in attempt.owner.held.items())
        record = commits_of.decode(b"".join(prepared.payload))
        assert record.writes == prepared.writes
        # The outcome has `affected` in any order, and the answer is compared, too.
        del record.writes[outcomes.TABLE]
        seen.append((record, locks, attempt.affected, attempt.growth))
        return commit(attempt, prepared, ended)

    manager._commit = committing
    if short:
        begun = manager._short_transaction

        def counted(*arguments):
            return Counted(begun(*arguments), ended)

        manager._short_transaction = counted
    path = manager_module.short_path if short else lambda *_: None
    with patch.object(manager_module, "short_path", path):
        for number, statement in enumerate(statements):
            key = str(number) if number % 2 else None
            request = TransactionRequest((statement,), idempotency_key=key)
            try:
                result = await database.transact(request)
                answer = (result.statements, result.affected, result.drawn)
            except HornbeamError as error:
                answer = (type(error), str(error), error.cure)
            found.append((answer, seen.copy()))
            seen.clear()
    await settled(database)
    return found, len(ended)


async def both(begun, statements):
    """The number of short statements, after a comparison with the general path."""
    found = []
    for short in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            async with opened(Path(folder)) as database:
                await begun(database)
                found.append(await run(database, statements, short=short))
    (general, none), (shortly, count) = found
    assert none == 0
    for statement, one, other in zip(statements, general, shortly, strict=True):
        assert one == other, statement
    return count
