"""OIDs of objects that a statement names, as in 'item'::regclass."""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.query.binding.row_oids import put_oids_of_rows
from hornbeam_server.query.binding.system_tables import SYSTEM
from hornbeam_server.query.parsing.system_lookups import named_calls
from hornbeam_server.query.system.definitions import oid_of_name
from hornbeam_server.query.system.objects import objects_of
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import UnknownName
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG
from hornbeam_server.schema.trees import nodes_of, supersede


def put_oids(tree: exp.Expr, catalog: Catalog) -> None:
    """Put the OID in the place of each written name of an object of `catalog`, and of each
    `tableoid`. Raises UnknownName."""
    put_oids_of_rows(tree, catalog)
    for call in list(named_calls(nodes_of(tree))):
        about, name = (each.name for each in call.expressions)
        oid = oid_of_name(about, name, objects_of(catalog))
        if oid is None:
            raise UnknownName(f"There is no {about} {name}.", name=name)
        found = exp.cast(exp.Literal.number(oid), exp.DType.BIGINT)
        found.meta[SYSTEM] = SYSTEM_CATALOG, "pg_class"
        supersede(call, found)
