"""`pg_stat_activity`, and the session of the client that asks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from hornbeam_server.query.system.asking import Asker, Backend, Facts
from hornbeam_server.query.system.objects import Objects
from hornbeam_server.query.system.oids import DATABASE_OID, OWNER
from hornbeam_server.query.system.postgresql import Given
from hornbeam_server.query.system.shapes import INTEGER, TEXT, SystemRelation
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import DATABASE, Column
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG
from hornbeam_server.schema.types import Row

SESSION = "hornbeam session"
"""The relation with one row about the session of the client that asks."""
HIDDEN = "<insufficient privilege>"
"""Stands for the statement of another user, as in PostgreSQL."""
ACTIVE = "active"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def activity(_: Objects, facts: Facts) -> Iterator[Given]:
    """The sessions of the node. Those of others have no more than their user and application."""
    for backend in facts.asker.backends():
        yield {
            "datid": DATABASE_OID,
            "datname": DATABASE,
            "pid": backend.pid,
            "usesysid": OWNER,
            "usename": backend.user,
            "application_name": backend.application,
            **_details(backend, facts.asker),
        }


def _details(backend: Backend, asker: Asker) -> Given:
    if not asker.may_signal(backend):
        return {"query": HIDDEN}
    waits = backend.state != ACTIVE
    address, port = backend.client
    return {
        "client_addr": address or None,
        "client_port": port if address else -1,
        "backend_start": _time(backend.began_ms),
        "xact_start": _time(backend.transaction_ms),
        "query_start": _time(backend.query_ms),
        "state_change": _time(backend.changed_ms),
        "wait_event_type": "Client" if waits else None,
        "wait_event": "ClientRead" if waits else None,
        "state": backend.state,
        "query": backend.sql,
        "backend_type": "client backend",
    }


def _time(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)


def _session(_: Catalog, facts: Facts) -> Iterator[Row]:
    address, port = facts.asker.client
    yield facts.asker.pid, address or None, port if address else None


RELATIONS = (
    SystemRelation(
        SYSTEM_CATALOG,
        SESSION,
        (
            Column("pid of session", INTEGER),
            Column("address of session", TEXT),
            Column("port of session", INTEGER),
        ),
        ("int4", "inet", "int4"),
        live=_session,
    ),
)
