"""The delta programs of a catalog's deferred views, compiled when a batch first needs them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from hornbeam_server.maintain.deltas.program import DeltaProgram, stored_program
from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.codec import decode_catalog
from hornbeam_server.schema.errors import Corruption, Unsupported
from hornbeam_server.schema.views import DeferredView
from hornbeam_server.storage.codec.rows import Codecs

CATALOGS = 4
"""Maximum number of catalogs whose programs are kept."""


class Programs:
    """The delta programs of a catalog's views, compiled when they are first used. The programs of
    `built` views look no rows up, since nothing is stored, so they may name every index."""

    def __init__(self, catalog: Catalog, built: frozenset[str] = frozenset()) -> None:
        self.catalog = catalog
        self.codecs = Codecs(catalog)
        self._built = built
        self._found: dict[str, DeltaProgram] = {}

    def __getitem__(self, name: str) -> DeltaProgram:
        """The program of a view. Raises Corruption."""
        if name not in self._found:
            catalog = all_readable(self.catalog) if name in self._built else self.catalog
            self._found[name] = program_of(catalog, catalog.deferred_view[name])
        return self._found[name]


@lru_cache(maxsize=CATALOGS)
def programs_of(
    encoded: str, usable: frozenset[str] | None = None, built: frozenset[str] = frozenset()
) -> Programs:
    """The programs of an encoded catalog, which the batches that have it share. `usable`: only
    these views and indexes are readable; `built`: these views are built."""
    catalog = decode_catalog(encoded.encode())
    return Programs(catalog if usable is None else usable_only(catalog, usable), built)


def all_readable(catalog: Catalog) -> Catalog:
    """The catalog in which all indexes and views are readable."""
    return replace(catalog, states=tuple((name, State.READABLE) for name, _ in catalog.states))


def program_of(catalog: Catalog, view: DeferredView) -> DeltaProgram:
    """The delta program of a view. Raises Corruption when the view's stored layouts are not those
    of the program, and Unsupported when this version refuses what an earlier one has kept."""
    try:
        program = stored_program(view, catalog)
    except Unsupported as error:
        raise Unsupported(
            f"View {view.name} cannot be kept, nor the others of its group: {error.message}",
            cure=f"{error.cure}, then `hornbeam refresh --rebuild {view.name}`, or take the view"
            " out of the DDL.",
        ) from None
    if program is None:
        raise Corruption(
            f"View {view.name} was planned by another version of Hornbeam, and stored otherwise.",
            cure="Plan and apply the schema again; the view is then rebuilt.",
        )
    return program


def usable_only(catalog: Catalog, usable: Iterable[str]) -> Catalog:
    """The catalog in which only `usable` views and indexes are readable: those that were readable
    all the time since the last batch. Lookups use no others."""
    states = ((name, state if name in usable else State.BUILDING) for name, state in catalog.states)
    return replace(catalog, states=tuple(states))
