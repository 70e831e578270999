"""The tests of SQLAlchemy's suite about reflection and DDL.

`test_table_via_select` is left out: it has CREATE TABLE AS and CREATE VIEW in tests without a
requirement.
"""

from sqlalchemy import testing
from sqlalchemy.testing.suite import test_reflection as original
from sqlalchemy.testing.suite.test_ddl import *
from sqlalchemy.testing.suite.test_reflection import *


class HasTableTest(original.HasTableTest):  # type: ignore[misc]
    """Without the view, which SQLAlchemy's class creates even if the requirement is closed."""

    @classmethod
    def define_views(cls, metadata: object) -> None:
        pass


class ComponentReflectionTestExtra(original.ComponentReflectionTestExtra):  # type: ignore[misc]
    """In the default schema only; SQLAlchemy's class uses others even if these are closed."""

    @testing.fixture()
    def use_schema_fixture(self) -> None:
        return None
