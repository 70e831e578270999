"""A row that a deferred view cannot hold: the error, and how its group continues."""

import pytest

from hornbeam.errors import OperationalError
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.refresh import driver as job
from hornbeam_server.pipeline.spark.errors import client_errors
from hornbeam_server.schema.errors import LimitExceeded, TypeMismatch
from tests.api.api_world import DDL, WORKLOAD, world

GOOD = "CREATE MATERIALIZED VIEW good WITH (refresh = 'deferred') AS SELECT k_id FROM kinds;\n"
CAST = "SELECT k_id, CAST(k_text AS INTEGER) AS i FROM kinds"
JOINED = (
    "SELECT c_id, o_id FROM customer JOIN orders ON c_id = o_c_id AND CAST(c_name AS INTEGER) > 1"
)
LONG = "SELECT repeat(k_text, 7000) AS long, count(*) AS n FROM kinds GROUP BY 1"
CURE = "`hornbeam refresh --rebuild bad`, or take the view out of the DDL"


def view(select, refresh="deferred"):
    return f"CREATE MATERIALIZED VIEW bad WITH (refresh = '{refresh}') AS {select};\n"


@pytest.fixture
def shop(tmp_path):
    with world(tmp_path) as opened:
        yield opened


@pytest.fixture
def refresh(spark, shop):
    url = f"hornbeam://{shop.client.base_url.host}:{shop.client.base_url.port}"
    node = open_transport(parse_url(url), 60.0)
    yield lambda: job.refresh(spark.sparkContext, node, url, "default")
    node.close()


def apply(shop, ddl):
    assert shop.apply(ddl=DDL + ddl, workload=WORKLOAD, roots=None).status_code == 200


@pytest.mark.parametrize(
    ("declared", "error"),
    [
        (view(CAST), TypeMismatch),
        (view(CAST, "recompute"), TypeMismatch),
        (view(JOINED), TypeMismatch),
        (view(LONG), LimitExceeded),
    ],
)
def test_the_error_names_the_view_and_a_rebuild_frees_its_group(shop, refresh, declared, error):
    apply(shop, GOOD + declared)
    refresh()
    shop.transact("INSERT INTO kinds (k_id, k_text) VALUES (1, 'xxxxx')")
    shop.transact("INSERT INTO customer (c_id, c_name) VALUES (1, 'xxxxx')")
    shop.transact("INSERT INTO orders (o_id, o_c_id) VALUES (1, 1)")
    with pytest.raises(error, match="View bad cannot be refreshed") as raised:
        refresh()
    assert CURE in raised.value.cure
    shop.transact("DELETE FROM orders")
    shop.transact("DELETE FROM customer")
    shop.transact("DELETE FROM kinds")
    with pytest.raises(error):  # a repeated batch has the same end
        refresh()
    assert shop.post("/v1/groups/rebuild", {"views": ["bad"]}).is_success
    assert refresh().views == ("good",)
    assert refresh().views == ("good", "bad")


def test_executors_raise_the_same_error(shop, refresh, monkeypatch):
    monkeypatch.setattr(job, "HERE_BYTES", 0)
    apply(shop, GOOD + view(CAST))
    shop.transact("INSERT INTO kinds (k_id, k_text) VALUES (1, 'x')")
    with client_errors(), pytest.raises(Exception) as failed:  # noqa: PT011
        refresh()
    with pytest.raises(OperationalError) as raised, client_errors():
        raise failed.value
    what, cure = str(raised.value).split("\n")
    assert "View bad cannot be refreshed, nor the others of its group: Could not convert" in what
    assert CURE in cure
    apply(shop, GOOD)
    assert refresh().views == ("good",)
