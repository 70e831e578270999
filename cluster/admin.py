"""What Thrift cannot ask of HBase and HDFS: regions split and moved, room in a folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hornbeam_server.cluster import artefacts
from hornbeam_server.cluster.control import Cluster
from hornbeam_server.schema.errors import Unavailable

ADMIN_S = 180.0
_PROGRAM = Path(__file__).resolve().parent / "Admin.java"


def admin(cluster: Cluster, *words: str) -> int:
    """Run Admin.java, whose first lines list the words. Returns the number of objects that it
    changed. Raises Unavailable."""
    java, jars = artefacts.java(), cluster.jars()
    options = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{cluster.folder / 'conf'}:{jars}/*")
    run = subprocess.run(
        [str(java), *options, str(_PROGRAM), *words],
        capture_output=True,
        text=True,
        timeout=ADMIN_S,
        check=False,
    )
    if run.returncode:
        raise Unavailable(f"Admin.java {' '.join(words)} has failed: {run.stderr[-2_000:]}")
    (done,) = (line for line in run.stdout.splitlines() if line.startswith("did "))
    return int(done.removeprefix("did "))
