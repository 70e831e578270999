import os
import shutil
import sys

import pytest
from pyspark.sql import SparkSession

from hornbeam_server.pipeline.sources.reader import register
from tests.pipeline.spark_here import QUICK_JAVA


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One session for all tests, because its start takes seconds."""
    if shutil.which("java") is None:
        pytest.fail("Spark needs Java 17: apt install openjdk-17-jdk-headless", pytrace=False)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2, 2]")  # a task may fail once
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", QUICK_JAVA)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    yield session
    session.stop()
