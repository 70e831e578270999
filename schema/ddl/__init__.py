"""DDL files: the schema as SQL text, read with located errors and written back.

The loader reads (with sqlglot's "postgres", which accepts the common forms of DuckDB, MySQL and
SQLite too) CREATE TABLE, CREATE [UNIQUE] INDEX … INCLUDE, CREATE MATERIALIZED VIEW (its SELECT is
stored as written, and bound when the schema is planned), and ALTER TABLE … ADD [CONSTRAINT …] as
pg_dump writes it. ALTER … RESTART WITH and setval set the first number of an identity column of the
file. `comments.py` reads COMMENT ON. Unknown statements and options are
refused: nothing in a file is silently ignored. Every node is checked to have only parts that are
read here (`Statement.only`).

The output of `pg_dump --schema-only` is accepted unchanged: schemas are name spaces (`spaces.py`),
sequences that are column defaults become IDENTITY, and statements that do not affect rows (owners,
grants, session settings) are skipped.

Constraints are checked on the net changes at the end of a transaction, so DEFERRABLE and
INITIALLY … are accepted, and NO ACTION is RESTRICT.
"""

from hornbeam_server.schema.ddl.comments import load_comment
from hornbeam_server.schema.ddl.load import (
    Reading,
    Restart,
    load_ddl,
    load_restart,
    read_file,
)
from hornbeam_server.schema.ddl.located import STATEMENT
from hornbeam_server.schema.render import render_ddl

__all__ = [
    "STATEMENT",
    "Reading",
    "Restart",
    "load_comment",
    "load_ddl",
    "load_restart",
    "read_file",
    "render_ddl",
]
