"""The adapters of the contract suites; those that need a cluster are given it."""

from dataclasses import replace
from functools import partial

import pytest


@pytest.fixture(scope="session")
def adapter(request):
    """The one that `over` names; what it opens is opened on the real cluster, if it needs one."""
    declared = request.param
    if not declared.cluster:
        return declared
    return replace(declared, open=partial(declared.open, request.getfixturevalue("real_cluster")))
