"""Test settings for the whole suite: hypothesis runs the same examples every time; one real
cluster serves all tests that ask for it; failures are told when they happen."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings
from real_cluster import guarded_cluster

from cluster import Cluster
from schema.errors import Unavailable

BROKEN = pytest.StashKey[bool]()
FAILURE_CHARACTERS = 3_000

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


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tell a failure at once, so that a run which is cut off says what it saw."""
    if report.failed:
        print(f"\n{report.nodeid} ({report.when}, {report.duration:.0f} s)", file=sys.__stderr__)
        print(report.longreprtext[-FAILURE_CHARACTERS:], file=sys.__stderr__, flush=True)


def needs_cluster(item: pytest.Item) -> bool:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    adapter = parameters.get("adapter")
    return "real_cluster" in item.fixturenames or getattr(adapter, "cluster", False)


@pytest.fixture(autouse=True)
def _healthy_cluster(request: pytest.FixtureRequest) -> None:
    """A cluster that broke fails the tests that need it with its own log, and soon: only the first
    of them waits for it to recover."""
    if needs_cluster(request.node):
        cluster = request.getfixturevalue("real_cluster")
        try:
            cluster.await_health(timeout_s=0 if request.config.stash.get(BROKEN, False) else 60)
        except Unavailable:
            request.config.stash[BROKEN] = True
            raise


@pytest.fixture(scope="session")
def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """HBase, HDFS and ZooKeeper, started when the first test asks; names that tests give to their
    tables and folders must not collide, and who kills what holds data takes a cluster of its own.
    HORNBEAM_CLUSTER names the folder of a cluster that is up and is to be used instead."""
    if running := os.environ.get("HORNBEAM_CLUSTER"):
        yield Cluster.at(Path(running))
        return
    with guarded_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
