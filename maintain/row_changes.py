"""What is stored when one row changes in place, or is deleted while no row references it.

A row changes *in place* if it keeps its key and references the same rows as before. Then its row of
a view whose path ends with its relation keeps its key and the columns above, so it follows from the
stored one. Nothing else is read. If other rows follow it in a view, only `Programs` finds the rows
of the view that change. A deletion changes none of these: they would reference the deleted row.

A program gives what `Programs.mutations` finds for the change. A relation whose changes need more
than that has no program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.maintain.paths import compile_path
from hornbeam_server.maintain.programs import Programs, Stored, stored_of
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import Row
from hornbeam_server.schema.views import JoinView
from hornbeam_server.storage.codec.rows import Codecs


@dataclass(frozen=True, slots=True)
class EndingView:
    """A view whose path ends with the relation: its rows have the keys of the relation's rows. The
    columns of the relation begin at `start`. `reference` projects the foreign key of the path out
    of a row of the relation."""

    stored: Stored
    table: str
    decode: Callable[[bytes], Row]
    start: int
    reference: Projection


@dataclass(frozen=True, slots=True)
class RowProgram:
    """What a change of one row of a relation stores. `views` are all views whose rows change with
    it, unless it `searches`: then `Programs` finds the changes of all views."""

    own: Stored
    views: tuple[EndingView, ...]
    searches: bool

    def mutations(
        self, old: Row, new: Row | None, in_views: Sequence[Row | None]
    ) -> list[Mutation] | None:
        """All rows that change, in the order of `Programs.mutations`, when the row `old` becomes
        `new`; None: it is deleted. `in_views` are its rows of `views`. Returns None if a view has
        no such row for a reason that the row itself does not show."""
        found = list(self.own.mutations([(old, new)]))
        for view, before in zip(self.views, in_views, strict=True):
            if before is not None:
                after = None if new is None else before[: view.start] + new
                found += view.stored.mutations([(before, after)])
            elif None not in view.reference(old):
                return None
        return found


def compile_row_program(
    catalog: Catalog,
    codecs: Codecs,
    programs: Programs,
    relation: str,
    changed: Set[str] | None = None,
) -> RowProgram | None:
    """The program of a relation. `changed` are the columns that an update may change; None for a
    deletion. Returns None if immediate views add up rows of the relation, if the rows
    are being copied, or if a view that ends with the relation is still being built."""
    views = [v for v in catalog.views if relation in v.path and catalog.maintained(v.name)]
    ending = [view for view in views if view.last == relation]
    if (
        programs.adds_rows_of(relation)
        or any(copy.relation == relation for copy in catalog.copies)
        or not all(catalog.readable(view.name) for view in ending)
    ):
        return None
    own = _changing(catalog, stored_of(catalog, codecs, relation), changed)
    if changed is not None and len(ending) < len(views):
        return RowProgram(own, (), searches=True)
    of_views = tuple(_ending(catalog, codecs, view, changed) for view in ending)
    return RowProgram(own, of_views, searches=False)


def _ending(
    catalog: Catalog, codecs: Codecs, view: JoinView, changed: Set[str] | None
) -> EndingView:
    last, codec = compile_path(catalog, view).last, codecs(view.name)
    if changed is not None:
        changed = {view.names[view.last, name] for name in changed}
    stored = _changing(catalog, stored_of(catalog, codecs, view.name), changed)
    reference = last.parent_key or projection(())
    return EndingView(stored, codec.layout.table, codec.decode, last.start, reference)


def _changing(catalog: Catalog, stored: Stored, changed: Set[str] | None) -> Stored:
    """`stored` with those of its indexes that may change with these columns."""
    kept = tuple(index for index in stored.indexes if may_change(catalog, index.name, changed))
    return replace(stored, indexes=kept)


def may_change(catalog: Catalog, index: str, changed: Set[str] | None) -> bool:
    """May rows of an index change when the columns `changed` of its source change? None: any."""
    if changed is None or not catalog.index[index].is_whole:
        return True
    return not changed.isdisjoint(catalog.layout(index).column_names)
