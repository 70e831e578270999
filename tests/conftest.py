"""Test settings for the whole suite: hypothesis runs the same examples every time; one real
cluster serves all tests that ask for it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings
from real_cluster import guarded_cluster

from cluster import Cluster

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """What a test does to the logs ends with it: others look for lines there."""
    before = structlog.get_config() if structlog.is_configured() else None
    yield
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)


@pytest.fixture(scope="session")
def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """HBase, HDFS and ZooKeeper, started when the first test asks; names that tests give to their
    tables and folders must not collide. HORNBEAM_CLUSTER names the folder of a cluster that is up
    and is to be used instead."""
    if running := os.environ.get("HORNBEAM_CLUSTER"):
        yield Cluster.at(Path(running))
        return
    with guarded_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
