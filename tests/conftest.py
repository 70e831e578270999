"""Test settings for the whole suite: hypothesis always runs the same examples, one real cluster
serves all tests that need it, and failures are printed when they happen.

The suite runs in two processes at the same time (pytest-xdist). The tests of a file run in one
process. So do all files that need the real cluster, which is started once, and all other files that
need Spark. Tests that measure response times run alone."""

import contextlib
import fcntl
import functools
import logging
import math
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from hornbeam_server.cluster import Cluster
from hornbeam_server.node import logging_setup
from hornbeam_server.schema.errors import Unavailable
from tests import durations
from tests.depth import choose_long
from tests.real_cluster import FOR_THRIFT_1, PATIENT, guarded_cluster
from tests.temporary import keep_in_memory

BROKEN = pytest.StashKey[bool]()
ENDED = pytest.StashKey[list[str]]()
FAILURE_CHARACTERS = 3_000
PROCESSES = 2
"""In which `make test-quick` runs, unless JOBS says otherwise."""
WORKER = "PYTEST_XDIST_WORKER"
"""Environment variable that is set in each of several processes."""

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("usual", settings.get_profile("repeatable"), max_examples=40)
settings.register_profile("long", settings.get_profile("repeatable"), max_examples=100)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=15)
settings.load_profile("usual")

keep_in_memory()

os.environ.setdefault("HORNBEAM_RESIDENT_REFRESH", "false")
"""Tests do the batches of deferred views themselves, or Spark does. Those of `tests/node` let nodes
do them."""

NOT_QUICK = {
    *(
        "bench",
        "cluster",
        "console",
        "crash",
        "distributions",
        "fuzz",
        "hostile",
        "isolation",
        "models",
    ),
    *("nemesis", "pipeline", "sim", "speedups"),
}
"""Folders of tests that `--quick` leaves out: they need Java, Spark, Go, spin or cargo, or take
long. Of the other folders it takes the shortest files (`tests/durations.py`)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="only quick tests, which need nothing but Python: `make test-quick`",
    )
    parser.addoption(
        "--long",
        action="store_true",
        help="try more random examples, seeds and repetitions: `make test-long`",
    )
    parser.addoption(
        "--without-cluster",
        action="store_true",
        help="leave out tests that need HBase, HDFS and ZooKeeper",
    )
    parser.addoption(
        "--record-durations",
        action="store_true",
        help="correct tests/durations.tsv by this run, which is one of all tests",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        settings.load_profile("quick")
    if config.getoption("--long"):
        settings.load_profile("long")
        choose_long()
    if WORKER not in os.environ:
        quick_s = durations.QUICK_S if config.getoption("--quick") else math.inf
        stopwatch = durations.Stopwatch(quick_s, corrects=config.getoption("--record-durations"))
        config.pluginmanager.register(stopwatch)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not config.getoption("--quick"):
        return None
    if collection_path.is_dir():
        leave_out = collection_path.name in NOT_QUICK
    else:
        leave_out = collection_path not in _quick_files(config.rootpath)
    return True if leave_out else None


@functools.cache
def _quick_files(root: Path) -> set[Path]:
    paths = (path.relative_to(root) for path in (root / "tests").rglob("test_*.py"))
    files = [str(path) for path in paths if NOT_QUICK.isdisjoint(path.parts)]
    budget = PROCESSES * (durations.QUICK_S - durations.START_S)
    return {root / file for file in durations.fitting(files, durations.read(), budget)}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _leave_out(config, items)
    if WORKER in os.environ:
        _sort_longest_first(config, items)


def _sort_longest_first(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort by the seconds of what is handed out to a process as one piece. A long piece that began
    last would keep one process busy while the others have ended."""
    recorded, seconds = durations.read(), Counter[str]()
    for path in {item.path for item in items}:
        seconds[_group(path)] += recorded.get(str(path.relative_to(config.rootpath)), 0.0)
    items.sort(key=lambda item: -seconds[_group(item.path)])


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
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
    """Begin each test with the log settings of a database inside another program, and restore the
    settings of logging after it. Tests look for lines in the log, so no test may depend on what
    earlier tests, fixtures of modules or `capture_logs` have left."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    structlog.reset_defaults()
    logging_setup.be_quiet()
    yield
    root.handlers[:] = handlers  # a handler of the test may write to its closed standard error
    root.setLevel(level)
    structlog.reset_defaults()


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
    hbase = {**PATIENT, **FOR_THRIFT_1}
    with guarded_cluster(tmp_path_factory.mktemp("cluster"), hbase=hbase) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Coroutine tests run on asyncio, as the server does."""
    return "asyncio"
