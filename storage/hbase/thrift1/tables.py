"""The definition of Hornbeam's tables as far as Thrift 1 knows it.

The tables are those of `storage.hbase.tables`. Thrift 1 can neither set nor show their durability,
and for how long delete markers stay: the region servers' settings decide that (`promises`). Nor
can it set what makes reads faster: the encoding and size of blocks are HBase's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hornbeam_server.storage.hbase.cells import FAMILY
from hornbeam_server.storage.hbase.tables import NO_LIMIT
from hornbeam_server.storage.hbase.thrift1.interface import THRIFT

_NAME = FAMILY + b":"
_MEANINGFUL = {"maxVersions": NO_LIMIT, "timeToLive": NO_LIMIT}


def families() -> list[Any]:
    """The families of a new table."""
    return [
        THRIFT.ColumnDescriptor(
            name=_NAME, bloomFilterType="ROW", blockCacheEnabled=True, **_MEANINGFUL
        )
    ]


def difference(found: Mapping[bytes, Any]) -> str:
    """How the families `found` of a table differ from those of Hornbeam's tables where they must
    agree; empty if they do not."""
    if set(found) != {_NAME}:
        there = ", ".join(sorted(name.decode(errors="replace") for name in found))
        return f"its families are {there or 'none'}, not {_NAME.decode()}"
    return ", ".join(
        f"{setting} is {getattr(found[_NAME], setting)}, not {wanted}"
        for setting, wanted in _MEANINGFUL.items()
        if getattr(found[_NAME], setting) != wanted
    )
