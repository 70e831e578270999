"""The data source on a Spark cluster of its own: a master and two workers, executors elsewhere."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from api_world import PLAN, world

from cluster.ports import free_ports

pytestmark = pytest.mark.timeout(300)
ROOT = Path(__file__).parent.parent.parent
SPARK = Path(pyspark.__file__).parent
START_S = 60.0
JOB = """
import sys
from pyspark.sql import SparkSession
from pipeline.source import register

master, url = sys.argv[1:]
spark = (
    SparkSession.builder.master(master)
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.executor.memory", "512m")
    .config("spark.executor.cores", "1")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
register(spark)
orders = spark.read.format("hornbeam").options(url=url, relation="orders").load()
workers = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
print("answer:", orders.count(), orders.selectExpr("sum(o_total)").first()[0], workers)
spark.stop()
"""


@contextmanager
def spark_process(folder, kind, *arguments):
    """A master or a worker, killed in the end; its log is in `folder`."""
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(folder),
        "SPARK_NO_DAEMONIZE": "1",
    }
    command = [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", *arguments]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def standalone(folder):
    """Its address, once both workers are there."""
    port, page, *pages = free_ports(4)
    with ExitStack() as running:
        for name in ("master", "one", "two"):
            (folder / name).mkdir()
        listen = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page))
        running.enter_context(spark_process(folder / "master", "master.Master", *listen))
        address = f"spark://127.0.0.1:{port}"
        for name, own_page in zip(("one", "two"), pages, strict=True):
            worker = ("--cores", "1", "--memory", "600m", "--webui-port", str(own_page), address)
            running.enter_context(spark_process(folder / name, "worker.Worker", *worker))
        give_up = time.monotonic() + START_S
        while workers(page) < 2:
            assert time.monotonic() < give_up, (folder / "master" / "log").read_text()
            time.sleep(0.2)
        yield address


def workers(page):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/") as answer:
            return json.load(answer)["aliveworkers"]
    except OSError:
        return 0


def test_executors_elsewhere_read_the_same(tmp_path, tmp_path_factory):
    with world(tmp_path_factory.mktemp("shop")) as shop, standalone(tmp_path) as master:
        assert shop.apply(**PLAN).status_code == 200
        lines = "\n".join(["o_id,o_total", *(f"{n},{n}.50" for n in range(1, 101))])
        headers = {"Content-Type": "text/csv"}
        assert shop.client.post("/v1/load/orders", content=lines, headers=headers).is_success
        url = f"hornbeam://{shop.client.base_url.host}:{shop.client.base_url.port}"
        job = subprocess.run(
            [sys.executable, "-c", JOB, master, url],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "answer: 100 5100.00 2" in job.stdout, job.stderr[-3000:]
