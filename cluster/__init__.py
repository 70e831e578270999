"""A whole HBase on one machine: HDFS, ZooKeeper, HBase and its Thrift gateways, without containers.

The jars come from Maven Central (`artefacts`). A folder holds a cluster's configuration, data and
logs, and `cluster.json`, which says what it consists of (`layout`). The file is written before the
first process starts and never says what runs: that is asked of the operating system. A process is
the cluster's if its command line bears the folder's name (`processes`), and nothing else is ever
signalled. `control` starts, watches and stops; `health` asks each process how it is.
"""

from hornbeam_server.cluster.control import Cluster, ProcessStatus
from hornbeam_server.cluster.layout import Address, Role

__all__ = ["Address", "Cluster", "ProcessStatus", "Role"]
