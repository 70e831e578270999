"""Tests of what meets HBase and HDFS, on several versions of them: `make test-matrix`.

For each version, a cluster of its own runs the contract suites of the table store, the log and
ZooKeeper's coordination, the tests of the adapters, and a sample of the nemesis.
`VERSIONS="2.5.8/3.3.6"` chooses versions of HBase and Hadoop.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from hornbeam_server.cluster.layout import DEFAULT_VERSIONS, Versions
from hornbeam_server.demo.ending import ended_by_sigterm
from tests.real_cluster import HADOOP_VARIABLE, HBASE_VARIABLE

VERSIONS = (DEFAULT_VERSIONS, Versions("2.5.8", "3.3.6"))
TESTS = (
    "tests/contract",
    "tests/storage/test_storage_hbase.py",
    "tests/storage/test_storage_hbase_thrift1.py",
    "tests/storage/test_storage_hdfs_cluster.py",
    "tests/storage/test_storage_zookeeper.py",
    "tests/nemesis/test_nemesis.py",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make test-matrix", description=__doc__)
    parser.add_argument("--versions", type=_versions, nargs="+", default=VERSIONS)
    sys.exit(run(parser.parse_args().versions))


def run(versions: Sequence[Versions]) -> int:
    """Run the tests on each version, and print which passed. Returns the exit code: 0 if all
    did."""
    lines, failed = [], False
    for each in versions:
        began = time.monotonic()
        print(f"== {each}", flush=True)
        code = _tested(each)
        failed = failed or code != 0
        verdict = "passed" if code == 0 else f"FAILED (status {code})"
        lines.append(f"{each}: {verdict}, {time.monotonic() - began:.0f} s")
    print(*lines, sep="\n", flush=True)
    return int(failed)


def _tested(versions: Versions) -> int:
    """The exit code of pytest."""
    chosen = {HBASE_VARIABLE: versions.hbase, HADOOP_VARIABLE: versions.hadoop}
    environment = {**os.environ, **chosen}
    environment.pop("HORNBEAM_CLUSTER", None)  # a running cluster has versions of its own
    command = [sys.executable, "-m", "pytest", "-q", *TESTS]
    return subprocess.run(command, env=environment, check=False).returncode


def _versions(text: str) -> Versions:
    hbase, slash, hadoop = text.partition("/")
    if not (hbase and slash and hadoop):
        raise argparse.ArgumentTypeError(f"{text!r} is not HBASE/HADOOP, for example 2.5.8/3.3.6")
    return Versions(hbase, hadoop)


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
