"""The tests of SQLAlchemy's suite about types, names and results."""

from sqlalchemy.testing.suite.test_results import *
from sqlalchemy.testing.suite.test_types import *
from sqlalchemy.testing.suite.test_unicode_ddl import *
