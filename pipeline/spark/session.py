"""A Spark session for one job, and the job's progress."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hornbeam_server.schema.errors import InvalidRequest

LOCAL = "local[*]"
"""This machine, one task per core."""
POLL_S = 0.2
Progress = Callable[[int, int], None]
"""Called with tasks done and tasks in all, from a thread of its own."""


@contextmanager
def session(master: str = LOCAL) -> Iterator[SparkSession]:
    """The caller's active session, if there is one; or a new one, which ends with the block. Raises
    InvalidRequest when Java is missing, or Spark does not start."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise InvalidRequest(
            "Spark needs Java 17, and there is no java here.",
            cure="apt install openjdk-17-jdk-headless, or set JAVA_HOME.",
        )
    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    builder = SparkSession.builder.appName("hornbeam").config("spark.log.level", "ERROR")
    builder = builder.config("spark.ui.enabled", "false").master(master)
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    try:
        made = builder.getOrCreate()
    except PySparkException as error:
        raise InvalidRequest(
            f"Spark does not start on {master}: {error}",
            cure="Look at the address of the master, and at Spark's settings.",
        ) from None
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def watched(context: SparkContext, total: int, progress: Progress) -> Iterator[None]:
    """Report how many of `total` tasks of the jobs in the block are done. Blocks in the same
    Spark context must not overlap."""
    group, done = "hornbeam", threading.Event()
    before = set(context.statusTracker().getJobIdsForGroup(group))

    def watch() -> None:
        tracker = context.statusTracker()
        while not done.wait(POLL_S):
            jobs = set(tracker.getJobIdsForGroup(group)) - before
            infos = [info for job in jobs if (info := tracker.getJobInfo(job)) is not None]
            stages = [tracker.getStageInfo(stage) for info in infos for stage in info.stageIds]
            progress(min(sum(s.numCompletedTasks for s in stages if s is not None), total), total)

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    context.setJobGroup(group, "hornbeam")
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        progress(total, total)
