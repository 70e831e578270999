"""The shape of a system relation, and the order of its parts.

A system relation is read only. Its rows follow from the catalog, and are computed once for each
version of it, when a query first reads them. Those of a live one also follow from what the catalog
does not have, such as the sessions of the node, and are computed for each query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hornbeam_server.query.system.asking import Facts
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.types import ColumnType, Kind, Row

TEXT, INTEGER, BIGINT = ColumnType(Kind.TEXT), ColumnType(Kind.INTEGER), ColumnType(Kind.BIGINT)


def _none(_: Catalog) -> Iterable[Row]:
    return ()


@dataclass(frozen=True, slots=True)
class SystemRelation:
    """A relation of the system schema `space`. `rows` gives its rows, in the order of `columns`;
    `live` those of a live relation. `types` are PostgreSQL's names of the types of the columns."""

    space: str
    name: str
    columns: tuple[Column, ...]
    types: tuple[str, ...]
    rows: Callable[[Catalog], Iterable[Row]] = _none
    live: Callable[[Catalog, Facts], Iterable[Row]] | None = None

    @property
    def full(self) -> str:
        """The name with the schema."""
        return f"{self.space}.{self.name}"
