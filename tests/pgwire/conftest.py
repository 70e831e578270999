import pytest

from tests.pgwire.wire_world import wire_world

DDL = """
CREATE TABLE item (
  i_id INTEGER PRIMARY KEY, i_name VARCHAR(20) NOT NULL,
  i_price DECIMAL(10,2) CHECK (i_price >= 0));
CREATE TABLE kinds (
  k_id BIGINT PRIMARY KEY, k_small SMALLINT, k_decimal DECIMAL(38,10), k_double DOUBLE PRECISION,
  k_real REAL, k_flag BOOLEAN, k_bytes BYTEA, k_date DATE, k_time TIME, k_at TIMESTAMP,
  k_instant TIMESTAMPTZ, k_interval INTERVAL, k_uuid UUID, k_json JSON, k_jsonb JSONB,
  k_text TEXT, k_texts TEXT[], k_numbers INTEGER[]);
"""


@pytest.fixture(scope="module")
def wire(tmp_path_factory):
    """One served database per module; each test uses its own primary keys."""
    with wire_world(tmp_path_factory.mktemp("wire")) as world:
        with world.connect() as connection:
            connection.execute(DDL)
        yield world


@pytest.fixture(autouse=True)
def _nothing_leaks(request):
    served = request.getfixturevalue("wire") if "wire" in request.fixturenames else None
    yield
    if served is not None:
        served.run(settled(served))
        assert set(served.leaks().values()) == {0}


async def settled(world):
    """Wait until the sessions of clients that have gone have ended."""
    import asyncio

    while world.listener._tasks:
        await asyncio.wait(list(world.listener._tasks.values()))
