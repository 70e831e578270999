"""The adapters of the contract suites; those that need a cluster get the real one."""

from dataclasses import replace
from functools import partial

import pytest


@pytest.fixture(scope="session")
def adapter(request):
    """The adapter that `over` names; if it needs a cluster, it opens its ports on the real one."""
    declared = request.param
    if not declared.cluster:
        return declared
    return replace(declared, open=partial(declared.open, request.getfixturevalue("real_cluster")))
