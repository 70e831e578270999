"""Views and indexes of a file that are passed over with a note, after all statements are read."""

from __future__ import annotations

from dataclasses import replace

from hornbeam_server.schema.ddl.drafts import Drafts
from hornbeam_server.schema.ddl.foreign_types import is_note_of_range
from hornbeam_server.schema.ddl.roles import calls
from hornbeam_server.schema.ddl.views import takes_bounds
from hornbeam_server.schema.drafts import IndexDraft
from hornbeam_server.schema.model import Refresh
from hornbeam_server.schema.types import UNORDERED


def pass_over_bounds(drafts: Drafts) -> None:
    """Take the plain views out that take bounds of ranges, which are kept as text."""
    columns = [column for draft in drafts.relations.values() for column in draft.columns]
    ranges = {column.name.text for column in columns if is_note_of_range(column.note)}
    for draft in [each for each in drafts.views if each.view.refresh is Refresh.PLAIN]:
        if takes_bounds(draft.view, ranges):
            drafts.views.remove(draft)
            note = f"passed over: CREATE VIEW {draft.name.text}, which takes a bound of a range"
            drafts.notes.append(note)


def pass_over_indexes(drafts: Drafts) -> None:
    """Take the indexes out that only make queries faster and that cannot be kept, and those of
    views and columns that are passed over."""
    kept = []
    stored = {each.name.text for each in drafts.views if each.view.refresh is not Refresh.PLAIN}
    for index in drafts.indexes:
        label = "an index" if index.name is None else f"index {index.name.text}"
        where = f"{label} in line {index.relation.place.line}"
        if reason := _reason(index, drafts):
            drafts.notes.append(f"passed over: {where}, {reason}")
        elif index.unique and index.relation.text in stored:
            drafts.notes.append(f"{where} is kept without UNIQUE, since it is that of a view")
            kept.append(replace(index, unique=False))
        else:
            kept.append(index)
    drafts.indexes = kept


def _reason(index: IndexDraft, drafts: Drafts) -> str:
    """Why an index is passed over; "" if it is not."""
    relation = index.relation.text
    if relation in drafts.unread:
        return f"since the view {relation} is passed over"
    lost = "; its values are not UNIQUE any more" if index.unique else ""
    if any(calls(each.sql, drafts.routines) for each in index.expressions):
        return f"since it calls a function of the file{lost}"
    columns = (name for of, name in drafts.computed if of == relation)
    computed = next((name for name in columns if index.reads(name)), "")
    if computed:
        return f"since the computed column {computed} is left out{lost}"
    draft = drafts.relations.get(relation)
    named = {name.text for name in index.names}
    types = [column.type for column in draft.columns if column.name.text in named] if draft else []
    kind = next((type_ for type_ in types if type_.kind in UNORDERED), None)
    if kind is None or index.unique:
        return ""
    return f"since {kind.ddl()} has no order in an index"
