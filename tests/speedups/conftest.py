"""The module that these tests are about."""

import pytest

from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.codec.implementation import choose


@pytest.fixture(scope="session")
def native():
    """The module. Without it the tests fail with the sentence that says what to install."""
    try:
        return choose("native").native
    except InvalidRequest as error:
        pytest.fail(
            f"{error.message} Run `make speedups`, which needs cargo 1.88 or newer"
            " (https://rustup.rs).",
            pytrace=False,
        )
