"""Everything that the write path compiles from one catalog version, held together."""

from __future__ import annotations

from functools import lru_cache

from maintain.programs import Programs, compile_programs
from query.engine import QueryEngine
from schema.catalog import Catalog
from storage.codec.rows import Codecs
from txlayer.constraints import Constraints
from txlayer.plans import WritePlan, compile_write
from txlayer.roots import Roots

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
        self._compile = lru_cache(PLAN_CACHE_SIZE)(lambda sql: compile_write(sql, catalog, engine))

    def plan(self, sql: str) -> WritePlan:
        """Raises SqlError and its kin."""
        return self._compile(sql)
