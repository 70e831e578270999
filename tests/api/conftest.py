import os

import pytest

from tests.api.api_world import PLAN, world


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """One served database per module; each test uses its own primary keys."""
    with world(tmp_path_factory.mktemp("api"), max_body_bytes=300_000, max_parameters=5_000) as w:
        assert w.apply(**PLAN).status_code == 200
        yield w


@pytest.fixture(autouse=True)
def _own_umask():
    """`serve` sets the umask of the process permanently; restore it after each test."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def _nothing_leaks(request):
    served = request.getfixturevalue("shop") if "shop" in request.fixturenames else None
    yield
    if served is not None:
        assert set(served.leaks().values()) == {0}
