"""A whole HBase on one machine: HDFS, ZooKeeper, HBase and its Thrift gateways, without containers.

The jars come from Maven Central (`artefacts`). A folder holds a cluster's configuration, data and
logs, and `cluster.json`, which lists its processes (`layout`). That file is written before the
first process starts, and does not say which processes run: the operating system does. A process
belongs to the cluster if its command line bears the folder's name (`processes`), and no other
process is ever signalled. `control` starts, watches and stops processes; `health` checks them.
"""

from hornbeam_server.cluster.control import Cluster, ProcessStatus
from hornbeam_server.cluster.layout import Address, Role

__all__ = ["Address", "Cluster", "ProcessStatus", "Role"]
