"""The tests of SQLAlchemy's suite about reflection and DDL."""

from sqlalchemy import testing
from sqlalchemy.testing.suite import test_reflection as original
from sqlalchemy.testing.suite.test_ddl import *
from sqlalchemy.testing.suite.test_reflection import *
from sqlalchemy.testing.suite.test_table_via_select import *


class ComponentReflectionTestExtra(original.ComponentReflectionTestExtra):  # type: ignore[misc]
    """In the default schema only; SQLAlchemy's class uses others even if these are closed."""

    @testing.fixture()
    def use_schema_fixture(self) -> None:
        return None
