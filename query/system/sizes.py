"""The bytes of relations and of the database, as far as the node knows them."""

from __future__ import annotations

from collections.abc import Iterator

from hornbeam_server.query.system.asking import Facts
from hornbeam_server.query.system.objects import objects_of
from hornbeam_server.query.system.oids import DATABASE_OID
from hornbeam_server.query.system.shapes import BIGINT, SystemRelation
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG
from hornbeam_server.schema.types import Row

SIZES = "hornbeam sizes"
"""The relation in which functions such as `pg_relation_size` look up bytes."""
FULL = f"{SYSTEM_CATALOG}.{SIZES}"
_UNSTORED = "vS"
"""Views that are computed, and sequences, whose numbers take no room of their own."""


def _sizes(catalog: Catalog, facts: Facts) -> Iterator[Row]:
    """Yield OID, own bytes, and the bytes of its indexes. The rows of a relation are stored under
    its primary key, which is no further table: so the index of a primary key has no bytes."""
    if not facts.sizes:
        return
    objects, sizes = objects_of(catalog), facts.sizes
    primary = {index.full for index in objects.indexes if index.primary}
    indexed: dict[str, int] = {}
    for index in objects.indexes:
        indexed[index.on] = indexed.get(index.on, 0) + sizes.get(index.full, 0)
    for each in objects.classes:
        stored = each.kind not in _UNSTORED and each.full not in primary
        own = sizes.get(each.full) if stored else 0
        if own is not None:
            yield each.oid, own, indexed.get(each.full, 0)
    yield DATABASE_OID, sum(sizes.values()), 0


RELATIONS = (
    SystemRelation(
        SYSTEM_CATALOG,
        SIZES,
        (
            Column("oid of size", BIGINT),
            Column("own size", BIGINT),
            Column("size of indexes", BIGINT),
        ),
        ("oid", "int8", "int8"),
        live=_sizes,
    ),
)
