"""Sequences of the SQLAlchemy dialect."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import default
from sqlalchemy.sql import compiler


class HornbeamExecutionContext(default.DefaultExecutionContext):
    """Takes numbers from sequences where an INSERT cannot."""

    def fire_sequence(self, seq: Any, type_: Any) -> Any:
        name = self.identifier_preparer.format_sequence(seq)
        return self._execute_scalar(f"SELECT {nextval(name)}", type_)


class SequenceCompiler(compiler.SQLCompiler):
    """Renders the next value of a sequence."""

    def visit_sequence(self, sequence: Any, **kw: Any) -> str:
        return nextval(self.preparer.format_sequence(sequence))


class SequenceReflection:
    """Finds the declared sequences in the schema document; those of identity columns belong to
    their columns."""

    _names: Any

    def get_sequence_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        names: list[str] = self._names(connection, "sequences", schema, **kw)
        return names

    def has_sequence(
        self, connection: Any, sequence_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        return sequence_name in self.get_sequence_names(connection, schema, **kw)


def nextval(name: str) -> str:
    """The call for the sequence `name`, which is quoted if it must be."""
    return "nextval('" + name.replace("'", "''") + "')"
