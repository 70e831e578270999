"""The tests of SQLAlchemy's suite about statements and connections."""

from sqlalchemy.testing.suite.test_cte import *
from sqlalchemy.testing.suite.test_dialect import *
from sqlalchemy.testing.suite.test_dialect import IsolationLevelTest as _IsolationLevelTest
from sqlalchemy.testing.suite.test_insert import *
from sqlalchemy.testing.suite.test_rowcount import *
from sqlalchemy.testing.suite.test_select import *
from sqlalchemy.testing.suite.test_sequence import *
from sqlalchemy.testing.suite.test_update_delete import *


class IsolationLevelTest(_IsolationLevelTest):
    def _get_non_default_isolation_level(self):
        """The suite takes any level of a set; READ UNCOMMITTED is reported as READ COMMITTED."""
        return "SERIALIZABLE"
