"""The delta programs of a catalog, compiled once."""

from dataclasses import replace

import pytest

from hornbeam_server.maintain.deltas.catalog_programs import programs_of
from hornbeam_server.node.schema_plans import PlanRequest, plan_schema
from hornbeam_server.schema.catalog import Catalog, Forest, State
from hornbeam_server.schema.codec import encode_catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import Schema

DDL = """
CREATE TABLE a (i INTEGER PRIMARY KEY, x INTEGER); CREATE INDEX a_x ON a (x);
CREATE MATERIALIZED VIEW v WITH (refresh = 'deferred') AS
  SELECT b.i, a.i AS other FROM a JOIN a AS b ON a.x = b.x;
"""


def test_batches_of_one_catalog_share_its_programs():
    planned = plan_schema(PlanRequest(DDL), Catalog(0, Schema(()), Forest(())))
    names = frozenset(name for name, _ in planned.catalog.states)
    states = tuple((name, State.READABLE) for name in names)
    encoded = encode_catalog(replace(planned.catalog, states=states)).decode()
    program = programs_of(encoded, names)["v"]
    assert programs_of(str(encoded), frozenset(names))["v"] is program
    with pytest.raises(Unsupported, match=r"View v cannot be kept.*no access path") as refused:
        programs_of(encoded, names - {"a_x"})["v"]
    assert refused.value.cure.startswith("CREATE INDEX ON a (x), then `hornbeam refresh --rebuild")
    assert programs_of(encoded, names - {"a_x"}, frozenset({"v"}))["v"].columns == program.columns
