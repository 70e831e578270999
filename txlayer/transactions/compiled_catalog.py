"""All objects that the write path compiles from one catalog version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property, lru_cache, partial

from hornbeam_server.maintain.immediate.reading import codecs_of
from hornbeam_server.maintain.programs import Programs, compile_programs
from hornbeam_server.query.binding.parameters import types_of
from hornbeam_server.query.engine import SHORT, QueryEngine
from hornbeam_server.schema.caches import TextCache
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.codec import meaning_of
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.types import ColumnType
from hornbeam_server.txlayer.locking.roots import Roots
from hornbeam_server.txlayer.statements.default_expressions import compile_default
from hornbeam_server.txlayer.statements.requests import Parameters
from hornbeam_server.txlayer.statements.shared_writes import SharedWrites
from hornbeam_server.txlayer.statements.write_compiler import compile_write, for_types
from hornbeam_server.txlayer.statements.write_plans import WritePlan, untyped
from hornbeam_server.txlayer.transactions.constraints import Constraints
from hornbeam_server.txlayer.transactions.short_inserts import compile_short_insert
from hornbeam_server.txlayer.transactions.short_writes import compile_short_write

_Typed = tuple[str, tuple[ColumnType | None, ...]]
PLAN_CACHE_SIZE = 2_000
SHORT_WRITES = 1_000
"""Maximum number of short writes that are kept."""


class CatalogState:
    """A catalog with its codecs, maintenance programs, roots, constraints and write plans.

    Immutable except for the plan cache. Each schema change makes a new state; a transaction keeps
    the state with which it began.
    """

    def __init__(self, catalog: Catalog, engine: QueryEngine) -> None:
        self.catalog = catalog
        self.engine = engine
        self.codecs = codecs_of(catalog)
        self.programs: Programs = compile_programs(catalog, self.codecs)
        self.roots = Roots(catalog, self.codecs)
        self.constraints = Constraints(catalog, self.codecs)
        self.default = cache(compile_default)
        self.short_insert = cache(
            partial(compile_short_insert, catalog, self.codecs, self.programs, self.constraints)
        )
        """Takes the name of a relation."""
        self.short_write = lru_cache(SHORT_WRITES)(
            partial(compile_short_write, catalog, self.codecs, self.programs, self.constraints)
        )
        """Takes the name of a relation, and the positions that an UPDATE assigns; None: DELETE."""
        self._plans: TextCache[str, WritePlan] = TextCache(PLAN_CACHE_SIZE)

        def compiled(sql: str) -> WritePlan:
            return compile_write(sql, catalog, engine)

        self._typed: TextCache[_Typed, WritePlan] = TextCache(PLAN_CACHE_SIZE)
        self._compile = compiled
        self._shared = SharedWrites(self._compile)

    @cached_property
    def meaning(self) -> int:
        """See `meaning_of`."""
        return meaning_of(self.catalog)

    def plan(self, sql: str) -> WritePlan:
        """The write plan of a statement, cached. Raises SqlError and its subclasses.

        A plan from a template is not cached: statements with ever new literals would evict others.
        """
        found = self._plans.get(sql) or self._shared.plan(sql)
        if found is None:
            found = self._compile(sql)
            self._plans.put(sql, len(sql), found)
        return found

    def typed(self, sql: str, plan: WritePlan, parameters: Parameters) -> WritePlan:
        """The plan for the types of these values if the types of its expressions depend on them, as
        in `SET balance = balance + ?`, and it needs no DuckDB then; else `plan`. Cached. Long
        statements have one plan."""
        names = untyped(plan) if len(sql) <= SHORT else ()
        types = types_of(plan.bound, names, parameters) if names else None
        if types is None:
            return plan
        found = self._typed.get((sql, types))
        if found is None:
            found = self._native(plan, dict(zip(names, types, strict=True))) or plan
            self._typed.put((sql, types), len(sql), found)
        return found

    def _native(
        self, plan: WritePlan, types: Mapping[int | str, ColumnType | None]
    ) -> WritePlan | None:
        try:
            found = for_types(plan, types, self.catalog, self.engine)
        except SqlError:
            return None  # a text that is a literal of another type without one of its own
        return None if found.by_values else found
