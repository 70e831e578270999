"""Catalogs under which the system catalog shows a part of the schema."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from hornbeam_server.query.system.objects import Objects, objects_of
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.parts import part_of

PARTS = 64
"""Maximum number of parts of one catalog that are kept, the most recently used ones."""


def showing(catalog: Catalog, names: frozenset[str]) -> Catalog:
    """The same catalog, whose system catalog shows only the relations, views and sequences `names`.
    Their OIDs are the same as in the whole catalog, for each part."""
    parts = catalog.derived.setdefault("parts", OrderedDict())
    assert isinstance(parts, OrderedDict)
    found: Catalog | None = parts.pop(names, None)
    if found is None:
        part = part_of(catalog, names)
        part.catalog.derived["objects"] = Objects(part.catalog, objects_of(catalog))
        found = replace(catalog, part=part)
    parts[names] = found
    while len(parts) > PARTS:
        parts.popitem(last=False)
    return found
