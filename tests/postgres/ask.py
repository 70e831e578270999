"""Record PostgreSQL's answers to the corpus: `make postgres-answers`.

Starts the installed PostgreSQL (Debian: `postgresql`) in a temporary folder and asks it every case.
Text is in the order of code points, as in Hornbeam.
Needs psycopg (`requirements-bench.lock`).
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from bench.peers.postgres import Server
from hornbeam_server.demo.ending import ended_by_sigterm
from tests.postgres import assigned, scripts
from tests.postgres.corpus import Answer, corpus, preparation, record, statement
from tests.postgres.names import named, record_names

_DATABASE = "CREATE DATABASE corpus LC_COLLATE 'C' LC_CTYPE 'C.UTF-8' TEMPLATE template0"


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        with Server(folder / "server") as server:
            with server.connect() as db:
                db.execute(_DATABASE)
            with server.connect("corpus") as db:
                for command in ("SET timezone = 'UTC'", *preparation()):
                    db.execute(command)
                answers = {case: _asked(db, case) for case in corpus()}
                record_names({sql: _names(db, sql) for sql in named()})
                record(server.versions(db)["postgresql"], answers)
                assigned.record(db)
            with server.connect("corpus") as db:  # a session that has had no temporary tables
                scripts.record(db)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    refused = sum(answer.error is not None for answer in answers.values())
    print(f"{len(answers)} answers, {refused} of them errors")


def _asked(db: Any, case: str) -> Answer:
    import psycopg

    try:
        result = db.execute(statement(case)).pgresult
    except psycopg.Error as error:
        return Answer(error=error.sqlstate or "unknown")
    columns = range(result.nfields)
    types = tuple(_type(db, result.ftype(i)) for i in columns)
    rows = (
        tuple(_text(result.get_value(row, i)) for i in columns) for row in range(result.ntuples)
    )
    return Answer(types, tuple(rows))


def _names(db: Any, sql: str) -> list[str] | str:
    """The names of the columns of a statement, or the SQLSTATE of its error."""
    import psycopg

    try:
        described = db.execute(sql).description
    except psycopg.Error as error:
        return error.sqlstate or "unknown"
    return [column.name for column in described]


_TYPES: dict[int, str] = {}


def _type(db: Any, oid: int) -> str:
    if oid not in _TYPES:
        (found,) = db.execute("SELECT format_type($1, NULL)", [oid]).fetchone()
        _TYPES[oid] = found
    return _TYPES[oid]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
