"""A report as a plain document. `--json` prints it; tables and the page are made from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam_server.pipeline.reconcile.report import Checked, Compared, Difference, Fault, Report
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec


def document(report: Report, codecs: Codecs) -> dict[str, Any]:
    """The document of a report. Rows and keys are lists of Python values; keys that are not valid
    in the table are bytes."""
    return {
        "snapshot": report.snapshot,
        "differences": report.differences,
        "repaired": sum(item.repaired for item in report.checked),
        "checked": [_checked(item, codecs(item.table)) for item in report.checked],
    }


def _checked(item: Checked, codec: LayoutCodec) -> dict[str, Any]:
    return {
        "name": item.name,
        "kind": str(item.kind),
        "as_of": item.as_of,
        "rows": item.rows,
        **{str(fault): item.count(fault) for fault in Fault},
        "differences": item.differences,
        "left_out": item.left_out,
        "repaired": item.repaired,
        "columns": list(codec.layout.column_names),
        "key": [part.column for part in codec.layout.key],
        "ranges": [_range(part, codec) for part in item.ranges],
        "samples": [_sample(one, codec) for one in item.samples],
    }


def _range(part: Compared, codec: LayoutCodec) -> dict[str, Any]:
    return {
        "from": _key(part.range.start, codec) if part.range.start else None,
        "before": _key(part.range.end, codec) if part.range.end is not None else None,
        "rows": part.rows,
        **{str(fault): part.counts.get(fault, 0) for fault in Fault},
    }


def _sample(one: Difference, codec: LayoutCodec) -> dict[str, Any]:
    return {
        "fault": str(one.fault),
        "key": _key(one.key, codec),
        "stored": _row(one.stored),
        "expected": _row(one.expected),
    }


def _key(key: bytes, codec: LayoutCodec) -> Sequence[Any] | bytes:
    return list(codec.decode_key(key)) if codec.is_key(key) else key


def _row(row: Row | None) -> list[Any] | None:
    return None if row is None else list(row)
