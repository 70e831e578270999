"""Alembic's implementation for the dialect: migrations and autogenerate.

Alembic 1.18 and newer load this module by its entry point. For an older one write
`import hornbeam.alembic` in `env.py`.
"""

from __future__ import annotations

from typing import Any

from alembic.ddl.base import IdentityColumnDefault, alter_column, alter_table
from alembic.ddl.impl import DefaultImpl
from sqlalchemy import exc
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement, Identity


class HornbeamImpl(DefaultImpl):
    """A schema change takes effect at once. So each migration is committed as it goes: what it has
    written is committed before it changes the schema."""

    __dialect__ = "hornbeam"
    transactional_ddl = False

    def _exec(self, construct: Any, *arguments: Any, **options: Any) -> Any:
        connection = self.connection
        if isinstance(construct, ExecutableDDLElement) and connection is not None:
            connection.connection.commit()
        return super()._exec(construct, *arguments, **options)

    def compare_server_default(
        self, _: Any, metadata_column: Any, declared: str | None, found: str | None
    ) -> bool:
        """Whether the texts `declared` and `found` are different defaults. The database compares
        their values if the texts differ."""
        if declared is None or found is None:
            return declared != found
        if isinstance(metadata_column.server_default.arg, str):
            declared = "'" + declared.replace("'", "''") + "'"
        if declared == found or ("'" not in declared and declared.casefold() == found.casefold()):
            return False
        assert self.connection is not None  # autogenerate works with a database
        type_ = self.dialect.type_compiler_instance.process(metadata_column.type)
        sql = f"SELECT CAST({declared} AS {type_}) IS NOT DISTINCT FROM CAST({found} AS {type_})"
        # A snapshot of its own: when an index is finished, an older one cannot be read any more.
        self.connection.connection.rollback()
        try:
            return not self.connection.exec_driver_sql(sql).scalar()
        except (exc.ProgrammingError, exc.NotSupportedError, exc.DataError):
            return True

    def _compare_identity_default(self, declared: Any, found: Any) -> Any:
        """The difference of identities. A primary key that SQLAlchemy numbers by itself has the
        identity that the dialect declares for it."""
        column = found.column if isinstance(found, Identity) else None
        if declared is None and column is not None and column.primary_key:
            declared = Identity()
        inherited: Any = super()._compare_identity_default
        return inherited(declared, found)


@compiles(IdentityColumnDefault, "hornbeam")
def _alter_identity(element: IdentityColumnDefault, compiler: Any, **_: Any) -> str:
    """ALTER COLUMN … ADD GENERATED … AS IDENTITY, or DROP IDENTITY."""
    table = alter_table(compiler, element.table_name, element.schema)
    column = alter_column(compiler, element.column_name)
    if element.default is None:
        return f"{table} {column} DROP IDENTITY"
    if isinstance(element.existing_server_default, Identity):
        raise exc.CompileError(
            "The options of an identity column are not altered: drop the identity, and add it."
        )
    return f"{table} {column} ADD {compiler.visit_identity_column(element.default)}"


def setup(plugin: Any) -> None:
    """Alembic calls this for its entry point. The class is registered by its definition."""
    del plugin
