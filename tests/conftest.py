"""Test settings for the whole suite: hypothesis always runs the same examples, one real cluster
serves all tests that need it, and failures are printed when they happen.

The suite runs in two processes at the same time (pytest-xdist). The tests of a file run in one
process. So do all files that need the real cluster, which is started once, and all other files that
need Spark. Tests that measure response times run alone."""

import contextlib
import fcntl
import functools
import logging
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from hornbeam_server.cluster import Cluster
from hornbeam_server.schema.errors import Unavailable
from tests.real_cluster import PATIENT, guarded_cluster

BROKEN = pytest.StashKey[bool]()
ENDED = pytest.StashKey[list[str]]()
FAILURE_CHARACTERS = 3_000
WORKER = "PYTEST_XDIST_WORKER"
"""Environment variable that is set in each of several processes."""

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=15)
settings.load_profile("repeatable")

os.environ.setdefault("HORNBEAM_RESIDENT_REFRESH", "false")
"""Tests do the batches of deferred views themselves, or Spark does. Those of `tests/node` let nodes
do them."""

NOT_QUICK = {
    *("bench", "cluster", "crash", "distributions", "fuzz", "hostile", "isolation", "models"),
    *("nemesis", "pipeline", "sim", "speedups"),
}
"""Folders of tests that `--quick` leaves out: they need Java, Spark, Go, spin or cargo, or take
long."""
LONG = {
    "TestEverything",
    "test_aggregate_views",
    "test_aggregate_views_law",
    "test_api_bounded_work",
    "test_api_deferred_schema",
    "test_api_disk_full",
    "test_api_node",
    "test_api_planning",
    "test_api_private_files",
    "test_api_puts",
    "test_api_same_origin",
    "test_api_schema",
    "test_api_security",
    "test_api_serve",
    "test_api_stream",
    "test_api_tls",
    "test_api_types",
    "test_api_workers",
    "test_binder_law",
    "test_client_alembic",
    "test_client_cli",
    "test_client_load",
    "test_client_nodes",
    "test_client_sqlalchemy",
    "test_deltas_law",
    "test_deltas_nesting",
    "test_deltas_program",
    "test_deltas_row_maps",
    "test_deltas_rows",
    "test_deltas_tpch",
    "test_differences",
    "test_engine",
    "test_engine_bytes",
    "test_engine_law",
    "test_expressions_oracle",
    "test_functions",
    "test_immediate_law",
    "test_immediate_views",
    "test_log_torture",
    "test_maintain_law",
    "test_maintain_programs",
    "test_nesting",
    "test_recovery",
    "test_rewrite",
    "test_rewrite_law",
    "test_schema_render",
    "test_schema_trees",
    "test_serializable_properties",
    "test_storage_hbase",
    "test_storage_hdfs",
    "test_storage_hdfs_cluster",
    "test_storage_local",
    "test_storage_rocks",
    "test_storage_simulated_peers",
    "test_table_store",
    "test_table_store_histories",
    "test_transactions_aggregate_views",
    "test_transactions_assignment",
    "test_transactions_builds",
    "test_transactions_comparisons",
    "test_transactions_computing",
    "test_transactions_constraints",
    "test_transactions_identity",
    "test_transactions_large_rows",
    "test_transactions_law",
    "test_transactions_loads",
    "test_transactions_long_sql",
    "test_transactions_protocol",
    "test_transactions_reads",
    "test_transactions_schema",
    "test_transactions_shutdown",
    "test_transactions_statements",
    "test_transactions_turns",
    "test_transactions_verify",
    "test_txlayer_following",
    "test_txlayer_master",
    "test_txlayer_member",
    "test_txlayer_members_law",
    "test_viewselect_law",
    "test_viewselect_plan",
    "test_viewselect_wide",
    "test_workers",
}
"""The files of tests that take longest of the other folders, measured on 2026-11-26. The rest takes
one minute on two cores."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="only quick tests, which need nothing but Python: `make test-quick`",
    )
    parser.addoption(
        "--without-cluster",
        action="store_true",
        help="leave out tests that need HBase, HDFS and ZooKeeper",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.is_dir():
        leave_out = collection_path.name in NOT_QUICK
    else:
        leave_out = collection_path.stem in LONG
    return True if config.getoption("--quick") and leave_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out single tests that need a cluster, or with `--quick` also those that need Go."""
    quick = config.getoption("--quick")
    if not (quick or config.getoption("--without-cluster")):
        return
    left_out = {
        item for item in items if needs_cluster(item) or (quick and item.get_closest_marker("go"))
    }
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Restore the log settings after each test, because other tests look for lines in the log."""
    before = structlog.get_config() if structlog.is_configured() else None
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers  # a handler of the test may write to its closed standard error
    root.setLevel(level)
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure at once, so that an interrupted run also shows its failures."""
    if report.failed and WORKER not in os.environ:
        print(f"\n{report.nodeid} ({report.when}, {report.duration:.0f} s)", file=sys.__stderr__)
        print(report.longreprtext[-FAILURE_CHARACTERS:], file=sys.__stderr__, flush=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _KeptTogether(config, log)


class _KeptTogether(LoadScopeScheduling):
    """Hands out single files, but all files that need the cluster, or Spark, as one piece."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", maxsplit=1)[0]
        return _group(self.config.rootpath / file)


@functools.cache
def _group(file: Path) -> str:
    if file.parent.name == "contract" or "real_cluster" in file.read_text(encoding="utf-8"):
        return "cluster"
    return "spark" if file.parent.name == "pipeline" else str(file)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with _place(item.config, alone=item.get_closest_marker("alone") is not None):
        return (yield)


@contextlib.contextmanager
def _place(config: pytest.Config, *, alone: bool) -> Iterator[None]:
    """Coordinate a test with the other processes of this run. A test that runs alone waits until
    their tests have ended, and they begin no test before it ends."""
    if WORKER not in os.environ:
        yield
        return
    folder = Path(config._tmp_path_factory.getbasetemp()).parent
    with open(folder / "next", "w") as following, open(folder / "running", "w") as running:
        fcntl.flock(following, fcntl.LOCK_EX)
        fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(following, fcntl.LOCK_UN)
        yield


def needs_cluster(item: pytest.Item) -> bool:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    adapter = parameters.get("adapter")
    return "real_cluster" in item.fixturenames or getattr(adapter, "cluster", False)


@pytest.fixture(autouse=True)
def _healthy_cluster(request: pytest.FixtureRequest) -> None:
    """Ensure that the shared cluster is healthy before a test that needs it. Restart processes that
    ended by themselves, and report them with their reason at the end of the run. If the cluster
    cannot be repaired, the tests that need it fail soon."""
    if not needs_cluster(request.node):
        return
    cluster = request.getfixturevalue("real_cluster")
    stash = request.config.stash
    try:
        try:
            cluster.await_health(timeout_s=0 if stash.get(BROKEN, False) else 60)
        except Unavailable as error:
            ended = [each.name for each in cluster.status() if each.pid is None]
            if not ended or stash.get(BROKEN, False):
                raise
            reported = f"Found before {request.node.nodeid}: {error}"
            stash.setdefault(ENDED, []).append(reported)
            for name in ended:
                cluster.restart(name)
            cluster.await_health(timeout_s=60)
    except Unavailable:
        stash[BROKEN] = True
        raise


def pytest_sessionfinish(session: pytest.Session) -> None:
    if WORKER in os.environ:
        session.config.workeroutput["ended"] = session.config.stash.get(ENDED, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    reports = getattr(node, "workeroutput", {}).get("ended", [])
    node.config.stash.setdefault(ENDED, []).extend(reports)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for text in terminalreporter.config.stash.get(ENDED, []):
        terminalreporter.section("a process of the shared cluster ended by itself")
        terminalreporter.line(text)


@pytest.fixture(scope="session")
def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """HBase, HDFS and ZooKeeper, started for the first test that needs them. Names of tables and
    folders must not collide. A test that kills a process with data uses its own cluster.
    HORNBEAM_CLUSTER names the folder of a running cluster to use instead."""
    if running := os.environ.get("HORNBEAM_CLUSTER"):
        yield Cluster.at(Path(running))
        return
    with guarded_cluster(tmp_path_factory.mktemp("cluster"), hbase=PATIENT) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Coroutine tests run on asyncio, as the server does."""
    return "asyncio"
