"""The definition of Hornbeam's tables in HBase, and how another table differs from it.

- All versions are kept, without limit. HBase's TTL counts the age of a version, not the time since
  it was superseded: it would remove versions that snapshots still need (decision 0018). `purge`
  removes the versions that no snapshot can read.
- Durability SYNC_WAL, HBase's default: a put that is answered outlives its region server, and any
  machine but the last that keeps a copy of the server's log. `flush` forces logs to disk.
- Only `purge` writes delete markers. They outlast compactions until their timestamps are a day old:
  so long they hide late copies of puts below them. A put that was given up may thus arrive up to a
  day after its timestamp.
- FAST_DIFF: neighbouring keys have much in common, and FAST_DIFF needs no library, while most
  compression needs one on every region server. Blocks of 16 KB, since most reads are of single
  rows. A Bloom filter over rows, since reads by key ask for rows only.
"""

from __future__ import annotations

from typing import Any

from hornbeam_server.storage.hbase.cells import FAMILY
from hornbeam_server.storage.hbase.interface import THRIFT

NO_LIMIT = (1 << 31) - 1
"""HBase's value for "no limit", of versions and of seconds."""
MARKERS_STAY = {"hbase.hstore.time.to.purge.deletes": str(24 * 3600 * 1000)}
_DURABILITY = THRIFT.TDurability.SYNC_WAL
_TOO_WEAK = (THRIFT.TDurability.SKIP_WAL, THRIFT.TDurability.ASYNC_WAL)
_SETTINGS = {
    "maxVersions": NO_LIMIT,
    "minVersions": 0,
    "timeToLive": NO_LIMIT,
    "keepDeletedCells": THRIFT.TKeepDeletedCells.FALSE,
    "bloomnFilterType": THRIFT.TBloomFilterType.ROW,
    "dataBlockEncoding": THRIFT.TDataBlockEncoding.FAST_DIFF,
    "blockSize": 16 << 10,
}
_MEANINGFUL = ("maxVersions", "minVersions", "timeToLive", "keepDeletedCells")
"""Settings that decide which versions are read; an operator may tune the others."""


def definition(name: Any) -> Any:
    family = THRIFT.TColumnFamilyDescriptor(name=FAMILY, configuration=MARKERS_STAY, **_SETTINGS)
    return THRIFT.TTableDescriptor(tableName=name, columns=[family], durability=_DURABILITY)


def difference(found: Any) -> str:
    """How the table `found` differs from Hornbeam's tables where they must agree; empty if it does
    not."""
    families = sorted(column.name.decode(errors="replace") for column in found.columns or [])
    if families != [FAMILY.decode()]:
        return f"its families are {', '.join(families) or 'none'}, not {FAMILY.decode()}"
    family = found.columns[0]
    wrong = [
        f"{name} is {getattr(family, name)}, not {_SETTINGS[name]}"
        for name in _MEANINGFUL
        if getattr(family, name) != _SETTINGS[name]
    ]
    configuration = {**(family.configuration or {})}
    wrong += [
        f"{name} is {configuration.get(name, 'not set')}, not {value}"
        for name, value in MARKERS_STAY.items()
        if configuration.get(name) != value
    ]
    if found.durability in _TOO_WEAK:
        name = THRIFT.TDurability._VALUES_TO_NAMES[found.durability]
        wrong.append(f"durability is {name}, not SYNC_WAL")
    return ", ".join(wrong)
