"""HBase's Thrift 1 interface, as Python classes.

`thrift1.thrift` lies beside this file as HBase 2.6.1 ships it, under the name `Hbase.thrift`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import thriftpy2

THRIFT: Any = thriftpy2.load(
    str(Path(__file__).with_name("thrift1.thrift")), module_name="hbase_thrift1_thrift"
)
