"""Frozen data that is planned once and sent to executors."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class Planned:
    """Base of frozen dataclasses with cached properties (codecs, closures): these are not pickled,
    but computed again where the data arrive."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
