"""Everything that the write path compiles from one catalog version, held together."""

from __future__ import annotations

from hornbeam_server.maintain.programs import Programs, compile_programs
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.caches import cached
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.txlayer.constraints import Constraints
from hornbeam_server.txlayer.plans import WritePlan, compile_write
from hornbeam_server.txlayer.roots import Roots

PLAN_CACHE_SIZE = 2_000


class CatalogState:
    """A catalog with its codecs, maintenance programs, roots, constraints and write plans.

    Immutable but for the plan cache. Schema changes make a new one; a transaction uses the one
    it began with.
    """

    def __init__(self, catalog: Catalog, engine: QueryEngine) -> None:
        self.catalog = catalog
        self.engine = engine
        self.codecs = Codecs(catalog)
        self.programs: Programs = compile_programs(catalog, self.codecs)
        self.roots = Roots(catalog, self.codecs)
        self.constraints = Constraints(catalog, self.codecs)
        self._compile = cached(lambda sql: compile_write(sql, catalog, engine), PLAN_CACHE_SIZE)

    def plan(self, sql: str) -> WritePlan:
        """Raises SqlError and its kin."""
        return self._compile(sql)
