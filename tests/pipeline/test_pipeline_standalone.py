"""A Spark cluster with a master and two workers. Its executors read the same rows, and a batch of
deferred views is correct when one of them is killed."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pyspark
import pytest

from hornbeam.transport import open_transport, parse_url
from hornbeam_server.cluster.ports import free_ports
from hornbeam_server.pipeline.refresh.driver import refresh
from tests.api.api_world import PLAN, world
from tests.pipeline.spark_here import QUICK_JAVA

pytestmark = pytest.mark.timeout(300)
ROOT = Path(__file__).parent.parent.parent
SPARK = Path(pyspark.__file__).parent
ENVIRONMENT = {
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": str(ROOT),
    "JAVA_TOOL_OPTIONS": QUICK_JAVA,
}
START_S = 60.0
SESSION = """
import sys
from pyspark.sql import SparkSession

master, url = sys.argv[1:]
spark = (
    SparkSession.builder.master(master)
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.executor.memory", "512m")
    .config("spark.executor.cores", "1")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
"""
JOB = (
    SESSION
    + """
from hornbeam_server.pipeline.sources.reader import register

register(spark)
orders = spark.read.format("hornbeam").options(url=url, relation="orders").load()
workers = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
print("answer:", orders.count(), orders.selectExpr("sum(o_total)").first()[0], workers)
spark.stop()
"""
)

BATCH = (
    SESSION
    + """
import os
import signal
from pathlib import Path

from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.refresh import driver as job

mine = b":" + spark.sparkContext.getConf().get("spark.driver.port").encode()


def executors():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\\0")
        except OSError:
            continue  # it has ended
        if any(b"CoarseGrainedScheduler" in word and word.endswith(mine) for word in words):
            yield int(path.parent.name)


level, killed = job._level, []


def after_a_kill(*arguments):
    if not killed:
        killed.append(min(executors()))
        os.kill(killed[0], signal.SIGKILL)
    return level(*arguments)


job._level, job.HERE_BYTES = after_a_kill, 0
done = job.refresh(spark.sparkContext, open_transport(parse_url(url), 60), url, "default")
print("done:", done.upto, len(killed))
spark.stop()
"""
)
SELECT = (
    "SELECT o_id % 10 AS last, count(*) AS n, max(o_total) AS most FROM orders GROUP BY o_id % 10"
)
VIEW = f"CREATE MATERIALIZED VIEW by_end WITH (refresh = 'deferred') AS {SELECT};"


@contextmanager
def spark_process(folder, kind, *arguments):
    """Run a master or a worker with its log in `folder`, and stop it at the end."""
    environment = (
        os.environ
        | ENVIRONMENT
        | {
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_WORKER_DIR": str(folder),
            "SPARK_NO_DAEMONIZE": "1",
        }
    )
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
    """Run the cluster, and yield its address when both workers are there."""
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
    """The number of workers that the master knows; 0 before it answers. It serves pages of HTML
    a moment earlier than JSON."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/") as answer:
            return json.load(answer)["aliveworkers"]
    except (OSError, json.JSONDecodeError):
        return 0


def run(job, master, url):
    done = subprocess.run(
        [sys.executable, "-c", job, master, url],
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_executors_of_a_spark_cluster_read_and_refresh(spark, tmp_path, tmp_path_factory):
    with world(tmp_path_factory.mktemp("shop")) as shop, standalone(tmp_path) as master:
        assert shop.apply(**PLAN | {"ddl": PLAN["ddl"] + VIEW}).status_code == 200
        lines = "\n".join(["o_id,o_total", *(f"{n},{n}.50" for n in range(1, 101))])
        headers = {"Content-Type": "text/csv"}
        assert shop.client.post("/v1/load/orders", content=lines, headers=headers).is_success
        url = f"hornbeam://{shop.client.base_url.host}:{shop.client.base_url.port}"
        assert "answer: 100 5100.00 2" in run(JOB, master, url)

        with closing(open_transport(parse_url(url), 60)) as node:
            refresh(spark.sparkContext, node, url, "default")
        assert shop.transact("UPDATE orders SET o_total = -o_total WHERE o_id > 95").is_success
        out = run(BATCH, master, url)
        (group,) = shop.client.get("/v1/groups").json()
        assert f"done: {group['as_of']} 1" in out
        shown = shop.rows("SELECT * FROM by_end")
        assert sorted(shown) == sorted(shop.rows(SELECT, snapshot=group["as_of"]))
        assert [0, 10, "90.50"] in shown
