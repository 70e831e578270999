"""HBase's Thrift 2 interface, as Python classes.

`hbase.thrift` lies beside this file as HBase 2.6.1 ships it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import thriftpy2

THRIFT: Any = thriftpy2.load(
    str(Path(__file__).with_name("hbase.thrift")), module_name="hbase_thrift"
)
